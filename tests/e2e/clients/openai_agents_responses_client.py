"""Uses the package openai-agents as openai_agents_client.py does, but with the API that is its default: /v1/responses."""

import openai
from agents import OpenAIResponsesModel

import openai_agents_client
from agent_tasks import BASE_URL, run

openai_agents_client.MODEL = OpenAIResponsesModel(
    model="tgi", openai_client=openai.AsyncOpenAI(base_url=BASE_URL, api_key="-", max_retries=0, timeout=60))
run(openai_agents_client.CASES)
