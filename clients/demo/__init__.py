"""The demo: a real model, a real server, stock clients, and every answer checked.

``__main__`` tells the story; ``preparation`` makes the model and the right answers, ``traffic`` sends and checks,
``quality`` says what the answers are worth, ``report`` prints the table.
"""
