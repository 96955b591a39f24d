#!/usr/bin/env python3
"""Scripted stand-in for the Anthropic Messages API: the real `claude -p` calls one MCP tool, without
a model and without an account. The first request that offers the tool is answered with its use;
once a result has come back, the final text is `RESULT: ` and that result.

    python3 fake_anthropic.py --tool mcp__wharf__echo --arguments '{"message": "hi"}'   # prints PORT
    ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=x ENABLE_TOOL_SEARCH=false \\
        claude -p hi --mcp-config mcp.json --strict-mcp-config --allowedTools mcp__wharf__echo
"""

import json

import stand_in

# Claude offers this tool while servers are still connecting.
WAIT = "WaitForMcpServers"


def tool_results(body):
    contents = (message["content"] for message in body["messages"])
    blocks = (block for content in contents if isinstance(content, list) for block in content)
    return [block for block in blocks if block.get("type") == "tool_result"]


def use(identifier, tool, arguments):
    return {"type": "tool_use", "id": identifier, "name": tool, "input": arguments}


def text(words):
    return {"type": "text", "text": words}


def next_step(body, tool, arguments):
    """The block of the answer, and why the answer stops there."""
    offered = [definition.get("name") for definition in body.get("tools", [])]
    results = tool_results(body)
    waited = any(result["tool_use_id"] == "toolu_wait" for result in results)
    results = [result for result in results if result["tool_use_id"] != "toolu_wait"]
    if results:
        return text("RESULT: " + json.dumps(results[-1].get("content"))[:1500]), "end_turn"
    if tool in offered:
        return use("toolu_call", tool, arguments), "tool_use"
    if WAIT in offered and not waited:
        return use("toolu_wait", WAIT, {}), "tool_use"
    return text("not offered: " + ", ".join(map(str, offered))[:1500]), "end_turn"


def stream(message, block, stop_reason):
    if block["type"] == "text":
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    stop = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]


class Anthropic(stand_in.Handler):
    tool = ""
    arguments = {}

    def do_HEAD(self):
        self.answer("application/json", "")

    def do_GET(self):
        self.json({})

    def do_POST(self):
        body = self.body()
        if "count_tokens" in self.path:
            return self.json({"input_tokens": 10})
        if "/v1/messages" not in self.path:
            return self.json({})
        tools = body.get("tools", [])
        self.log({
            "tools": [tool.get("name") for tool in tools],
            "definition": [tool for tool in tools if tool.get("name") == self.tool],
            "results": tool_results(body),
        })
        block, stop_reason = next_step(body, self.tool, self.arguments)
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "content": [],
            "model": body.get("model", "scripted"), "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if body.get("stream"):
            return self.events(stream(message, block, stop_reason))
        return self.json({**message, "content": [block], "stop_reason": stop_reason})


def main():
    options = stand_in.arguments(__doc__)
    Anthropic.tool = options.tool
    Anthropic.arguments = json.loads(options.arguments)
    stand_in.serve(Anthropic, options.log)


if __name__ == "__main__":
    main()
