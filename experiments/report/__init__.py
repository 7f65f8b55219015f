"""Records of runs, and what is made of them: summaries, sentences, figures and HTML pages."""
