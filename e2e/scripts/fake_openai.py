#!/usr/bin/env python3
"""Scripted stand-in for the OpenAI Responses API: the real `codex exec` calls one MCP tool, without
a model and without an account. The first request that offers a tool of that name is answered with a
call of it; once its output has come back, the final text is `RESULT: ` and that output.

    python3 fake_openai.py --tool echo --arguments '{"message": "hi"}'   # prints PORT
    codex exec -c model_provider=fake -c model=fake --skip-git-repo-check \\
        -c 'model_providers.fake={name="fake",base_url="http://127.0.0.1:PORT/v1",wire_api="responses"}' hi
"""

import json

import stand_in

OUTPUTS = ("function_call_output", "mcp_tool_call_output", "tool_search_output")


def flat(tools, namespace=None):
    """Codex groups the tools of a server in a namespace: (namespace, name) of each."""
    for tool in tools:
        if "tools" in tool:
            yield from flat(tool["tools"], tool.get("name"))
        else:
            yield namespace, tool.get("name") or tool.get("type")


def message(words):
    content = [{"type": "output_text", "text": words}]
    return {"type": "message", "role": "assistant", "id": "message", "content": content}


def next_step(offered, outputs, tool, arguments):
    """The item of the answer."""
    if outputs:
        return message("RESULT: " + json.dumps(outputs[-1])[:1500])
    for namespace, name in offered:
        if name == tool:
            call = {"type": "function_call", "id": "call", "call_id": "call", "name": name,
                    "arguments": arguments}
            return {**call, "namespace": namespace} if namespace else call
    return message("not offered: " + json.dumps(offered)[:1500])


class OpenAI(stand_in.Handler):
    tool = ""
    arguments = ""

    def do_GET(self):
        self.json({"data": [], "models": []})

    def do_POST(self):
        body = self.body()
        offered = list(flat(body.get("tools", [])))
        items = [item for item in body.get("input", []) if isinstance(item, dict)]
        outputs = [item for item in items if item.get("type") in OUTPUTS]
        self.log({"tools": offered, "results": outputs})
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
                 "output_tokens_details": None, "total_tokens": 2}
        self.events([
            {"type": "response.created", "response": {"id": "response"}},
            {"type": "response.output_item.done",
             "item": next_step(offered, outputs, self.tool, self.arguments)},
            {"type": "response.completed", "response": {"id": "response", "usage": usage}},
        ])


def main():
    options = stand_in.parser(__doc__).parse_args()
    OpenAI.tool = options.tool
    OpenAI.arguments = options.arguments
    stand_in.serve(OpenAI, options.log)


if __name__ == "__main__":
    main()
