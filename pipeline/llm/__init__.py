"""Language models behind one protocol (protocol.py): a server that speaks OpenAI's API, and recorded answers.

Not here: what a model is asked (pipeline/prompts) and what is done with its answer (whoever asks).
"""
