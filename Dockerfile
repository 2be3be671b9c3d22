# The image of every Passdown process: `docker build .`, as compose.yaml does.
FROM python:3.11-slim

WORKDIR /src
COPY requirements.txt requirements-build.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt -r requirements-build.txt
COPY pyproject.toml README.md LICENSE* ./
COPY contracts contracts
COPY broker broker
COPY agents agents
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
    && useradd --create-home passdown \
    && install -d -o passdown /outside

USER passdown
WORKDIR /home/passdown
CMD ["passdown", "--help"]
