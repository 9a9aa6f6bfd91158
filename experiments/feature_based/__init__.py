"""Hidden states of a frozen encoder -> taggers of words (table 7)."""
