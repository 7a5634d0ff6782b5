"""llama.cpp, from the package xllamacpp: its server with one model."""

import json
import math
import urllib.request

import xllamacpp


class Peer:
    """llama.cpp with a file. It computes on the CPU, and keeps keys and values in float32."""

    def __init__(self, path):
        p = xllamacpp.CommonParams()
        p.model.path = str(path)
        p.n_ctx, p.n_gpu_layers, p.warmup, p.port = 512, 0, False, 0
        p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        p.cpuparams.n_threads, p.verbosity, p.fit_params, p.n_parallel = 2, 0, False, 1
        self.server = xllamacpp.Server(p)
        self.url = self.server.listening_address

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)

    def tokenize(self, text):
        """The ids of a text with the special tokens before and after it."""
        return self.post("/tokenize", {"content": text, "add_special": True,
                                       "parse_special": True})["tokens"]

    def logprobs(self, ids, vocabulary):
        """The log-probability of each id but the first, after those before it.

        The server gives none if the next token is a part of a character, so that is forced to be a
        letter. Log-probabilities are those before."""
        letter = self.tokenize("e")[-1]
        out = []
        for i in range(1, len(ids)):
            reply = self.post("/completion", {
                "prompt": ids[:i], "n_predict": 1, "n_probs": vocabulary, "temperature": 0,
                "post_sampling_probs": False, "cache_prompt": True,
                "logit_bias": [[letter, 1000]]})
            top = reply["completion_probabilities"][0]["top_logprobs"]
            found = {t["id"]: t["logprob"] for t in top}
            out.append(found.get(ids[i], -math.inf))
        return out
