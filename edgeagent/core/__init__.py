"""The rules, as pure functions of values: nothing here waits, reads a clock or draws by chance."""
