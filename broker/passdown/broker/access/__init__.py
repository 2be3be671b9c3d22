"""Who may do what: roles and their verbs, tokens, and the one `authorize` of every surface (rule 10, DESIGN §9)."""
