"""Models, runs, records -> pages, reports, diagnoses, explanations."""
