#!/usr/bin/env python3
"""Scripted stand-in for the Anthropic Messages API: the real `claude -p` calls one MCP tool, without
a model and without an account. The first request that offers the tool is answered with its use, and
so is the next with `--calls 2`; once that many results have come back, the final text is `RESULT: `
and those results. With `--gate FILE`, no call but the first is made before there is that file.

    python3 fake_anthropic.py --tool mcp__wharf__echo --arguments '{"message": "hi"}'   # prints PORT
    ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=x ENABLE_TOOL_SEARCH=false \\
        claude -p hi --mcp-config mcp.json --strict-mcp-config --allowedTools mcp__wharf__echo
"""

import json
import os
import time

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


def next_step(body, tool, arguments, calls):
    """The block of the answer, and why the answer stops there."""
    offered = [definition.get("name") for definition in body.get("tools", [])]
    results = tool_results(body)
    waited = any(result["tool_use_id"] == "toolu_wait" for result in results)
    results = [result for result in results if result["tool_use_id"] != "toolu_wait"]
    if len(results) >= calls:
        contents = [result.get("content") for result in results]
        return text("RESULT: " + json.dumps(contents)[:3000]), "end_turn"
    if tool in offered:
        return use(f"toolu_call_{len(results)}", tool, arguments), "tool_use"
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
    calls = 1
    gate = None

    def wait_at_gate(self, body):
        """The model takes its time before it calls again."""
        while self.gate and tool_results(body) and not os.path.exists(self.gate):
            time.sleep(0.02)

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
        self.wait_at_gate(body)
        block, stop_reason = next_step(body, self.tool, self.arguments, self.calls)
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "content": [],
            "model": body.get("model", "scripted"), "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if body.get("stream"):
            return self.events(stream(message, block, stop_reason))
        return self.json({**message, "content": [block], "stop_reason": stop_reason})


def main():
    parser = stand_in.parser(__doc__)
    parser.add_argument("--calls", type=int, default=1, help="how often to call it")
    parser.add_argument("--gate", help="file to wait for before each call but the first")
    options = parser.parse_args()
    Anthropic.tool = options.tool
    Anthropic.arguments = json.loads(options.arguments)
    Anthropic.calls, Anthropic.gate = options.calls, options.gate
    stand_in.serve(Anthropic, options.log)


if __name__ == "__main__":
    main()
