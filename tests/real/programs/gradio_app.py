"""gradio with a trivial model: a POST gives an event id, a GET of it streams the result."""

import sys

import gradio

gradio.Interface(lambda text: text[::-1], "text", "text", api_name="predict").launch(
    server_name="127.0.0.1", server_port=int(sys.argv[1]), quiet=True, share=False
)
