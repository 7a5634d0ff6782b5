// The answers of the fake model: a subtraction is computed, any other question is quoted.
import type { ChatEvent, ChatRequest } from '../types';

type Token = Extract<ChatEvent, { type: 'reasoning' | 'content' }>;

/** Every request finds this much of its prompt in the cache. */
export const cachedTokens = 384;

/** The text of the last message. */
export function questionOf({ messages }: ChatRequest): string {
  return messages.at(-1)?.content ?? '';
}

/** Returns at least 512. Long prompts have one token for every four characters. */
export function promptTokensOf(question: string): number {
  return Math.max(512, Math.ceil(question.length / 4));
}

/** The events of a complete answer. Prefill advances by prefillTokens with each event. */
export function* answerTo(request: ChatRequest, prefillTokens: number): Generator<ChatEvent> {
  const question = questionOf(request);
  const promptTokens = promptTokensOf(question);
  for (let done = 0; done < promptTokens; done += prefillTokens)
    yield { type: 'prefill', doneTokens: done, totalTokens: promptTokens };
  yield { type: 'prefill', doneTokens: promptTokens, totalTokens: promptTokens };

  const tokens = tokensOf(question, request.thinking);
  const { maxTokens = tokens.length } = request.sampling;
  const generated = tokens.slice(0, maxTokens);
  yield* generated;
  if (request.tools.length > 0) {
    yield { type: 'call', index: 0, name: 'weather', arguments: '{"city":' };
    yield { type: 'call', index: 0, name: '', arguments: ' "Oslo"}' };
  }
  yield { type: 'finish', reason: maxTokens < tokens.length ? 'length' : 'stop' };
  yield {
    type: 'usage',
    usage: {
      promptTokens,
      cachedTokens,
      completionTokens: generated.length,
      // It decodes ahead where it calculates.
      ...(calculation.test(question)
        ? { draftTokens: 4, acceptedTokens: 3 }
        : { draftTokens: 0, acceptedTokens: 0 }),
      reasoningTokens: generated.filter(({ type }) => type === 'reasoning').length,
      tokensPerSecond: null,
    },
  };
}

/** All tokens of an answer, before maxTokens cuts it. */
function tokensOf(question: string, thinking: boolean): Token[] {
  const { reasoning, content } = replyTo(question);
  const thoughts = thinking ? pieces(reasoning) : [];
  return [
    ...thoughts.map((text): Token => ({ type: 'reasoning', text })),
    ...pieces(content).map((text, index): Token => {
      const accepted = calculation.test(question) && index > 0 && index <= 3;
      return { type: 'content', text, ...(accepted && { accepted }) };
    }),
  ];
}

const calculation = /(\d+) - (\d+)/;

function replyTo(question: string): { reasoning: string; content: string } {
  const [, from, less] = calculation.exec(question) ?? [];
  if (from && less) {
    const difference = Number(from) - Number(less);
    return {
      reasoning: `Start at ${from} and take away ${less}. That leaves ${difference}.`,
      content: `${from} - ${less} = ${difference}.`,
    };
  }
  return {
    reasoning: `The question was: ${question} I repeat it.`,
    content:
      `You said this:\n\n> ${question}\n\n` +
      `\`\`\`python\nprint(${JSON.stringify(question)})\n\`\`\``,
  };
}

/** The text in pieces of about a token. */
function pieces(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
}
