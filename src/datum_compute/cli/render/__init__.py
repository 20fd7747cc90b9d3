"""Tables, screens, colours and differences, as text or JSON."""
