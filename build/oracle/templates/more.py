"""Unpacks the chat templates that two packages have.

Usage: more.py OLLAMA_UTILS.tgz XINFERENCE.whl FOLDER

The npm package @huggingface/ollama-utils has the templates of models that Ollama's library has, as
Hugging Face's GGUF files have them. The Python package xinference has those of models that it
serves. FOLDER gets a file NAME.jinja for each. Templates of guards, which classify a conversation,
are left out.
"""
import json
import pathlib
import re
import sys
import tarfile
import zipfile

GUARDS = re.compile("guard|shield")


def of_ollama(path):
    """The names and templates in the table of ollama-utils."""
    with tarfile.open(path) as package:
        source = package.extractfile("package/src/chat-template-automap.ts").read().decode()
    literal = r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    entry = re.compile(r"\bmodel: " + literal + r",\s*gguf:\s*" + literal)
    for model, template in entry.findall(source):
        yield "ollama-" + text_of(model).removeprefix("library/"), text_of(template)


def text_of(literal):
    """The text of a string literal of JavaScript."""
    if literal[0] == "'":
        literal = '"' + literal[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    return json.loads(literal)


def of_xinference(path):
    """The names and templates in the descriptions of xinference's models."""
    with zipfile.ZipFile(path) as package:
        for name in package.namelist():
            if not re.search(r"model/llm/.*\.json$", name):
                continue
            models = json.loads(package.read(name))
            for model in models if isinstance(models, list) else [models]:
                if isinstance(model, dict) and model.get("chat_template"):
                    yield "xinference-" + model["model_name"], model["chat_template"]


def main():
    folder = pathlib.Path(sys.argv[3])
    written = 0
    for name, template in [*of_ollama(sys.argv[1]), *of_xinference(sys.argv[2])]:
        if not GUARDS.search(name):
            file = re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".jinja"
            (folder / file).write_text(template, encoding="utf-8")
            written += 1
    if written < 150:
        sys.exit(f"only {written} templates were found: the packages have changed their form")


main()
