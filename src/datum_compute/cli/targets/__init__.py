"""What a target is made from: the contexts that users store, and the token of datumctl."""
