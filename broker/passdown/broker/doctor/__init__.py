"""`passdown doctor`: what is looked at, and what is to be done about what was found. It changes nothing."""

from passdown.broker.doctor.examining import Patient, examine

__all__ = ["Patient", "examine"]
