"""What the model card of Qwen3-Reranker computes, for the tokens that LogitScore compares."""

import torch

BEFORE = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the '
          'Query and the Instruct provided. Note that the answer can only be "yes" or "no".'
          '<|im_end|>\n<|im_start|>user\n')
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


def qwen3(cross_encoder, query, documents):
    """The probability of yes against no, for each document."""
    body, score = cross_encoder[0], cross_encoder[1]
    tokenizer, model = body.tokenizer, body.model
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
    scores = []
    for document in documents:
        pair = f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}"
        ids = encode(BEFORE) + encode(pair) + encode(AFTER)
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        both = logits[[score.false_token_id, score.true_token_id]]
        scores.append(torch.softmax(both.float(), 0)[1].item())
    return scores
