"""Streams a chat over https with the package openai; prints the text of each chunk as JSON."""

import json
import ssl
import sys

import openai

url, authority, messages = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
context = ssl.create_default_context(cafile=authority)
client = openai.OpenAI(base_url=url + "/v1", api_key="-", timeout=60, max_retries=0,
                       http_client=openai.DefaultHttpxClient(verify=context))
stream = client.chat.completions.create(model="tgi", messages=messages, max_tokens=40, temperature=0, stream=True)
print(json.dumps([chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]))
