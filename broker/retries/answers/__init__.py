"""Rules as typed answers, and what they would have done."""
