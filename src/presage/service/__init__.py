"""The service: the plane's jobs, systems, estimates and decisions over HTTP."""
