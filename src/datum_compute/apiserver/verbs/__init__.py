"""What each verb does: get and list, create, update, patch and delete, watch, scale and logs."""
