"""Schemathesis: the check of build/clients, and the limits of its requests.

An answer with the status 500 is a bug. 502 and 503 have a cause outside, such as a hub that cannot
be reached, and the API documents them.
"""

import os
import re

import schemathesis

# Requests may name folders, in which a server would look for models and write. They stay in here.
folder = os.environ["HEADROOM_FUZZ_FOLDER"]
paths = {"paths", "dir", "importFolder", "modelFolders", "path"}

# An answer has a few tokens, because there are many requests.
limits = {"/v1/chat/completions": "max_tokens", "/v1/completions": "max_tokens",
          "/v1/messages": "max_tokens", "/v1/responses": "max_output_tokens",
          "/v1/responses/compact": "max_output_tokens"}
most = 4


@schemathesis.check
def no_500(ctx, response, case):
    assert response.status_code != 500, response.text


def inside(value):
    """Replaces paths by others inside the folder."""
    if isinstance(value, list):
        return [inside(v) for v in value]
    if isinstance(value, str) and value:
        return os.path.join(folder, re.sub(r"[^a-zA-Z0-9]", "_", value)[:100])
    return value


def limited(number, otherwise):
    """Returns a number of tokens that is at most the limit. What is no number stays."""
    if number is None:
        return otherwise
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        return min(number, otherwise)
    return number


@schemathesis.hook
def before_call(ctx, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    body = {name: inside(v) if name in paths else v for name, v in body.items()}
    path = case.operation.path
    if path in limits:
        name = limits[path]
        body[name] = limited(body.get(name), most)
        for other in ("max_completion_tokens", "n_predict", "n", "best_of"):
            if other in body:
                body[other] = limited(body[other], most)
    if path in ("/api/chat", "/api/generate") and isinstance(body.get("options", {}), dict):
        options = dict(body.get("options", {}))
        options["num_predict"] = limited(options.get("num_predict"), most)
        body["options"] = options
    case.body = body
