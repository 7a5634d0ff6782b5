// The requests of the Try page, and what their answers say. Pure functions.
import { HeadroomError } from './backend/backend';
import type { Model } from './backend/types';
import type { SnippetRequest } from './snippets';
import { unreadable as t } from '../strings/try';

/** The parts of the page. */
export type Part = 'schema' | 'decision' | 'similarity';
export type QuestionType = 'predicate' | 'choice' | 'score';
/** Which of a model's abilities a part needs. */
export type Task = Model['task'];

export const tasksOf: Record<Part, readonly Task[]> = {
  schema: [''],
  decision: [''],
  similarity: ['embed', 'rerank'],
};

/** The most tokens of an answer with a schema. */
export const maxTokens = 1024;

/** The models that a part can use, those that are loaded first. */
export function usable(models: readonly Model[], part: Part): Model[] {
  return models
    .filter(
      ({ state, error, task, loaded, fits }) =>
        state === 'ready' && !error && tasksOf[part].includes(task) && (loaded || fits !== 'no'),
    )
    .toSorted((a, b) => Number(b.loaded) - Number(a.loaded));
}

/** The model that a person has chosen, or else the loaded one, or else the first. */
export function picked(models: readonly Model[], chosen: string, loaded: string): Model | null {
  const byId = (id: string) => models.find((model) => model.id === id);
  return byId(chosen) ?? byId(loaded) ?? models[0] ?? null;
}

/** A small embedding model to download, of an architecture that Headroom runs. */
export const embeddingModel = { id: 'Qwen/Qwen3-Embedding-0.6B', bytes: 1.2e9 };

/** The lines of a text that have words, without the space around them. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
}

/** A JSON document, or why the text is none. */
export function parsed(text: string): { value?: unknown; error: string } {
  try {
    return { value: JSON.parse(text), error: '' };
  } catch (cause) {
    return { error: cause instanceof Error ? cause.message : String(cause) };
  }
}

/** Asks for an answer that fits a schema. Reasoning is off, so that the answer begins at once. */
export function schemaRequest(model: string, prompt: string, schema: unknown): SnippetRequest {
  return {
    path: 'chat/completions',
    body: {
      model,
      messages: [{ role: 'user', content: prompt }],
      max_tokens: maxTokens,
      reasoning_effort: 'none',
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', strict: true, schema },
      },
    },
    part: ['choices', 0, 'message', 'content'],
  };
}

/** Asks a question about a text. A predicate has no options. */
export function decisionRequest(
  model: string,
  input: string,
  type: QuestionType,
  instructions: string,
  options: readonly string[],
): SnippetRequest {
  const question = {
    predicate: {},
    choice: { choices: options.map((value) => ({ value })) },
    score: { levels: options.map((label) => ({ label })) },
  }[type];
  return {
    path: 'decisions',
    body: { model, input, questions: [{ type, instructions, ...question }] },
    part: ['answers', 0],
  };
}

/** Asks for the vectors of all texts, or for the scores of the texts if the model is a reranker. */
export function similarityRequest(
  model: string,
  task: Task,
  query: string,
  texts: readonly string[],
): SnippetRequest {
  return task === 'rerank'
    ? {
        path: 'rerank',
        body: { model, query, documents: texts, return_documents: false },
        part: ['results'],
      }
    : { path: 'embeddings', body: { model, input: [query, ...texts] }, part: ['data'] };
}

export interface SchemaAnswer {
  /** The answer, as indented JSON if it is complete. */
  text: string;
  /** The answer reached its limit of tokens. */
  cut: boolean;
}

export interface Bar {
  label: string;
  value: number;
}

/** The texts of a request with their scores, the highest first. */
export interface SimilarityAnswer {
  bars: Bar[];
  /** What computed the scores: an embedding model or a reranker. */
  scores: 'embed' | 'rerank';
}

export interface DecisionAnswer {
  bars: Bar[];
  /** From 0 to 1; null for a predicate, whose probability says it. */
  confidence: number | null;
  /** The expected level, counted from 0; null if the question is no score. */
  score: number | null;
  /** The model gave no option a probability. */
  refused: boolean;
}

interface Completion {
  choices: { message: { content: string | null }; finish_reason: string | null }[];
}

interface Decisions {
  answers: {
    type: string;
    probability?: number;
    score?: number;
    confidence?: number;
    probabilities?: { value: unknown; label?: string; probability: number }[];
  }[];
}

/** Runs a reader. Its exceptions mean that the document has another form. */
function read<Answer>(reader: () => Answer): Answer {
  try {
    return reader();
  } catch (cause) {
    const why = t.why(cause instanceof Error ? cause.message : String(cause));
    throw new HeadroomError({ code: 'unreadable', message: t.message, why, fix: t.fix });
  }
}

export function readSchema(document: unknown): SchemaAnswer {
  return read(() => {
    const [choice] = (document as Completion).choices;
    const content = choice!.message.content ?? '';
    const { value, error } = parsed(content);
    return {
      text: error ? content : JSON.stringify(value, null, 2),
      cut: choice!.finish_reason === 'length',
    };
  });
}

/** yes and no label the bars of a predicate. */
export function readDecision(document: unknown, yes: string, no: string): DecisionAnswer {
  return read(() => {
    const answer = (document as Decisions).answers[0]!;
    const { type, probability: p = 0, probabilities = [] } = answer;
    const bars =
      type === 'predicate'
        ? [
            { label: yes, value: p },
            { label: no, value: 1 - p },
          ]
        : probabilities.map(({ label, value, probability }) => ({
            label: label ?? String(value),
            value: probability,
          }));
    return {
      bars,
      confidence: answer.confidence ?? null,
      score: answer.score ?? null,
      refused: type === 'refusal',
    };
  });
}

export function readSimilarity(
  document: unknown,
  { path, body }: SnippetRequest,
): SimilarityAnswer {
  return read(() => {
    const scores = path === 'rerank' ? 'rerank' : 'embed';
    const bars =
      scores === 'rerank'
        ? rerankScores(document as Reranked, body.documents as string[])
        : vectorScores(document as Vectors, body.input as string[]);
    return { bars: bars.toSorted((a, b) => b.value - a.value), scores };
  });
}

interface Reranked {
  results: { index: number; relevance_score: number }[];
}

interface Vectors {
  data: { index: number; embedding: number[] }[];
}

function rerankScores({ results }: Reranked, documents: readonly string[]): Bar[] {
  return results.map(({ index, relevance_score: value }) => ({ label: documents[index]!, value }));
}

function vectorScores({ data }: Vectors, [, ...texts]: readonly string[]): Bar[] {
  const vectors = data.toSorted((a, b) => a.index - b.index).map(({ embedding }) => embedding);
  return texts.map((label, i) => ({ label, value: cosine(vectors[0]!, vectors[i + 1]!) }));
}

/** The cosine of the angle between two vectors of the same length; 0 if one has no direction. */
export function cosine(a: readonly number[], b: readonly number[]): number {
  let [dot, aa, bb] = [0, 0, 0];
  a.forEach((x, i) => {
    const y = b[i]!;
    dot += x * y;
    aa += x * x;
    bb += y * y;
  });
  return aa > 0 && bb > 0 ? dot / Math.sqrt(aa * bb) : 0;
}
