#!/usr/bin/env python3
"""The official Python SDK as a client: connects, lists the tools, calls one, prints JSON.

    python_client.py --url URL [--token T] [--mode auto|legacy|2026-07-28] [--call TOOL JSON] [--answer JSON]
    python_client.py --stdio [--mode …] [--call TOOL JSON] [--answer JSON] -- COMMAND ARGS…

With `--answer`, it can be asked things (elicitation) and answers all of them with that content.

Output: {"protocol": …, "server": …, "tools": [names], "result": …, "asked": [messages]}
"""

import argparse
import asyncio
import json
import sys

from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--url")
    target.add_argument("--stdio", action="store_true", help="start the command after `--`")
    parser.add_argument("--token", help="bearer token")
    parser.add_argument("--mode", default="auto", choices=["auto", "legacy", "2026-07-28"])
    parser.add_argument("--call", nargs=2, metavar=("TOOL", "JSON"))
    parser.add_argument("--answer", type=json.loads, metavar="JSON")
    own, command = sys.argv[1:], []
    if "--" in own:
        split = own.index("--")
        own, command = own[:split], own[split + 1:]
    return parser.parse_args(own), command


def target(chosen, command):
    if chosen.stdio:
        return StdioServerParameters(command=command[0], args=command[1:])
    headers = {"authorization": f"Bearer {chosen.token}"} if chosen.token else None
    return streamable_http_client(chosen.url, http_client=create_mcp_http_client(headers=headers))


async def main():
    chosen, command = options()
    answer = {"asked": []}

    async def asked(_, params):
        answer["asked"].append(params.message)
        return types.ElicitResult(action="accept", content=chosen.answer)

    callbacks = {} if chosen.answer is None else {"elicitation_callback": asked}
    async with Client(target(chosen, command), mode=chosen.mode, **callbacks) as client:
        answer["protocol"] = client.protocol_version
        # A pinned modern connection asks nothing before its first request.
        answer["server"] = client.server_info.name if client.server_info else None
        answer["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        if chosen.call:
            tool, arguments = chosen.call
            result = await client.call_tool(tool, json.loads(arguments))
            answer["result"] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    print(json.dumps(answer))


if __name__ == "__main__":
    asyncio.run(main())
