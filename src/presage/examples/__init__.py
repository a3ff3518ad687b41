"""Programs to begin with; `presage demo` copies one of them."""
