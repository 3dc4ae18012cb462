"""Validates answers of /status by their schema, which must contain each of their keys; see control.rs."""

import copy
import json
import sys

from jsonschema import Draft202012Validator


def closed(schema):
    """Returns the schema without permission for other keys."""
    if isinstance(schema, list):
        return [closed(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return inner | {"additionalProperties": False} if isinstance(inner.get("properties"), dict) else inner


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


schema = load(sys.argv[1])
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(closed(schema))
for path in sys.argv[2:]:
    status = load(path)
    for error in validator.iter_errors(status):
        raise SystemExit(f"{path}: {error.json_path}: {error.message}")
    assert status["ports"] and status["ports"][0]["classes"][3]["rx_frames"] > 0, "it has seen traffic"
    for break_it in (
        lambda it: it["ports"][0].update(name=7),
        lambda it: it["ports"][0].pop("link"),
        lambda it: it["verdict"].update(promise="broken"),
        lambda it: it["ports"][1]["classes"][3]["ingress"].update(more=1),
    ):
        broken = copy.deepcopy(status)
        break_it(broken)
        assert not validator.is_valid(broken), "what is wrong is not found"
