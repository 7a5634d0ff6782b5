// The endpoint's answers other than chat: an answer with a schema, decisions, vectors and scores.
// The probabilities and scores come from the texts alone, so they are the same every time.
import type { Model } from '../types';
import { refusal } from './refusal';

/** A request, as far as the fake reads it. */
export interface EndpointBody {
  model: string;
  response_format?: { json_schema: { schema: Schema } };
  questions?: Question[];
  input?: string | string[];
  query?: string;
  documents?: string[];
}

interface Question {
  type: 'predicate' | 'choice' | 'score';
  choices?: { value: string }[];
  levels?: { label: string }[];
}

interface Schema {
  type?: string;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  items?: Schema;
  minItems?: number;
  minimum?: number;
  $ref?: string;
}

/** Answers a request to a model of a task. Throws when it is refused. */
export function endpointAnswer(path: string, body: EndpointBody, task: Model['task']): unknown {
  const needed = { embeddings: 'embed', rerank: 'rerank' }[path] ?? '';
  if (task !== needed)
    throw refusal('bad_request', `The model "${body.model}" is not for /v1/${path}`);
  switch (path) {
    case 'decisions':
      return { answers: (body.questions ?? []).map(decision), model: body.model };
    case 'embeddings': {
      const embed = (text: string, index: number) => ({ index, embedding: vectorOf(text) });
      return { object: 'list', data: [body.input ?? []].flat().map(embed), model: body.model };
    }
    case 'rerank': {
      const score = (text: string, index: number) => ({
        index,
        relevance_score: wordsShared(body.query ?? '', text),
      });
      return { object: 'list', results: (body.documents ?? []).map(score), model: body.model };
    }
  }
  const content = JSON.stringify(instance(body.response_format!.json_schema.schema, 'answer'));
  const message = { role: 'assistant', content };
  return { object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }] };
}

/** The smallest instance of a schema; a string is the name of its member. */
function instance(schema: Schema, name: string): unknown {
  if (schema.$ref) throw refusal('bad_request', `"${schema.$ref}" leads nowhere`);
  if (schema.enum) return schema.enum[0];
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, one]) => [key, instance(one, key)]),
      );
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => instance(schema.items ?? {}, name));
    case 'integer':
    case 'number':
      return schema.minimum ?? 0;
    case 'boolean':
      return true;
    default:
      return name;
  }
}

/** The first option has half of the probability, and each of the others half of the rest. */
function decision({ type, choices = [], levels = [] }: Question): unknown {
  if (type === 'predicate') return { type, name: null, probability: 0.9 };
  const options = type === 'choice' ? choices : levels;
  const probabilities = options.map((option, value) => ({
    value,
    ...option,
    probability: 2 ** -Math.min(value + 1, options.length - 1),
  }));
  const score = probabilities.reduce((sum, { probability }, i) => sum + i * probability, 0);
  return type === 'choice'
    ? { type, name: null, choice: choices[0]?.value, confidence: 0.25, probabilities }
    : { type, name: null, score, confidence: 0.25, probabilities };
}

/** How often each letter of the alphabet occurs. */
function vectorOf(text: string): number[] {
  const letters = text.toLowerCase();
  return Array.from(
    { length: 26 },
    (_, i) => letters.split(String.fromCharCode(97 + i)).length - 1,
  );
}

/** The share of the query's words that are in a text. */
function wordsShared(query: string, text: string): number {
  const words = query.toLowerCase().match(/\p{L}+/gu) ?? [];
  const there = words.filter((word) => text.toLowerCase().includes(word));
  return words.length === 0 ? 0 : there.length / words.length;
}
