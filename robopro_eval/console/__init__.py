"""What both programs show to a person: errors as one sentence, lines on stdout, progress and tables."""
