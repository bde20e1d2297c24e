"""Settings of a program: one pydantic class, filled from deploy_policy.yml, environment, flags and overrides."""
