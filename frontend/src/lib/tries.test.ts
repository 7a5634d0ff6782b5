// The requests are those of the endpoint's documentation. The answers have hand-worked scores.
import { describe, expect, test } from 'vitest';
import { fakeModel } from './backend/fake';
import {
  cosine,
  decisionRequest,
  linesOf,
  picked,
  readDecision,
  readSchema,
  readSimilarity,
  schemaRequest,
  similarityRequest,
  usable,
} from './tries';

const model = fakeModel;

test('a part has the models of its task that can be loaded, those that are loaded first', () => {
  const models = [
    model({ id: 'text' }),
    model({ id: 'front', loaded: true, fits: 'no' }),
    model({ id: 'large', fits: 'no' }),
    model({ id: 'broken', error: 'It is broken' }),
    model({ id: 'half', state: 'downloading' }),
    model({ id: 'vectors', task: 'embed' }),
    model({ id: 'scores', task: 'rerank', loaded: true }),
  ];
  const ids = (part: 'decision' | 'similarity') => usable(models, part).map(({ id }) => id);
  expect(ids('decision')).toEqual(['front', 'text']);
  expect(ids('similarity')).toEqual(['scores', 'vectors']);
});

test.each([
  ['b', 'c', 'b'],
  ['', 'c', 'c'],
  ['gone', 'c', 'c'],
  ['', '', 'a'],
])('of a, b and c, with %j chosen and %j loaded: %s', (chosen, loaded, id) => {
  const models = ['a', 'b', 'c'].map((one) => model({ id: one }));
  expect(picked(models, chosen, loaded)?.id).toBe(id);
  expect(picked([], chosen, loaded)).toBeNull();
});

test('empty lines are no options', () => {
  expect(linesOf(' a b \n\n\t\nc')).toEqual(['a b', 'c']);
});

describe('requests', () => {
  test('an answer with a schema', () => {
    const { path, body } = schemaRequest('m', 'Name a city.', { type: 'object' });
    expect(path).toBe('chat/completions');
    expect(body).toMatchObject({
      messages: [{ role: 'user', content: 'Name a city.' }],
      response_format: {
        type: 'json_schema',
        json_schema: { strict: true, schema: { type: 'object' } },
      },
    });
  });

  test.each([
    ['predicate', {}],
    ['choice', { choices: [{ value: 'a' }, { value: 'b' }] }],
    ['score', { levels: [{ label: 'a' }, { label: 'b' }] }],
  ] as const)('a decision of the type %s', (type, options) => {
    const { path, body } = decisionRequest('m', 'Text.', type, 'So?', ['a', 'b']);
    expect(path).toBe('decisions');
    expect(body).toEqual({
      model: 'm',
      input: 'Text.',
      questions: [{ type, instructions: 'So?', ...options }],
    });
  });

  test('a similarity', () => {
    expect(similarityRequest('m', 'embed', 'q', ['a', 'b'])).toMatchObject({
      path: 'embeddings',
      body: { model: 'm', input: ['q', 'a', 'b'] },
    });
    expect(similarityRequest('m', 'rerank', 'q', ['a', 'b'])).toMatchObject({
      path: 'rerank',
      body: { model: 'm', query: 'q', documents: ['a', 'b'] },
    });
  });
});

describe('answers', () => {
  const completion = (content: string | null, finish_reason = 'stop') => ({
    choices: [{ message: { content }, finish_reason }],
  });

  test('JSON is indented, and what is not complete stays as it is', () => {
    expect(readSchema(completion('{"a": [1]}'))).toEqual({
      text: '{\n  "a": [\n    1\n  ]\n}',
      cut: false,
    });
    expect(readSchema(completion('{"a": [', 'length'))).toEqual({ text: '{"a": [', cut: true });
    expect(readSchema(completion(null)).text).toBe('');
  });

  test('a predicate has two bars', () => {
    const answers = [{ type: 'predicate', name: null, probability: 0.75 }];
    expect(readDecision({ answers }, 'Yes', 'No')).toEqual({
      bars: [
        { label: 'Yes', value: 0.75 },
        { label: 'No', value: 0.25 },
      ],
      confidence: null,
      score: null,
      refused: false,
    });
  });

  test('a choice has a bar for each value, a score one for each label', () => {
    const choice = {
      type: 'choice',
      confidence: 0.5,
      probabilities: [
        { value: true, probability: 0.75 },
        { value: 'b', probability: 0.25 },
      ],
    };
    const score = {
      type: 'score',
      score: 0.25,
      confidence: 0.5,
      probabilities: [{ value: 0, label: 'low', probability: 1 }],
    };
    expect(readDecision({ answers: [choice] }, 'Yes', 'No').bars).toEqual([
      { label: 'true', value: 0.75 },
      { label: 'b', value: 0.25 },
    ]);
    expect(readDecision({ answers: [score] }, 'Yes', 'No')).toMatchObject({
      bars: [{ label: 'low', value: 1 }],
      score: 0.25,
      confidence: 0.5,
    });
    expect(readDecision({ answers: [{ type: 'refusal' }] }, 'Yes', 'No').refused).toBe(true);
  });

  test('vectors in any order are compared with the first text', () => {
    const request = similarityRequest('m', 'embed', 'q', ['across', 'same', 'opposite']);
    const data = [
      { index: 1, embedding: [0, 5] },
      { index: 0, embedding: [2, 0] },
      { index: 3, embedding: [-1, 0] },
      { index: 2, embedding: [3, 0] },
    ];
    expect(readSimilarity({ data }, request)).toEqual({
      bars: [
        { label: 'same', value: 1 },
        { label: 'across', value: 0 },
        { label: 'opposite', value: -1 },
      ],
      scores: 'embed',
    });
  });

  test('scores belong to the documents of their index, the highest first', () => {
    const request = similarityRequest('m', 'rerank', 'q', ['a', 'b']);
    const results = [
      { index: 0, relevance_score: 0.1 },
      { index: 1, relevance_score: 0.9 },
    ];
    expect(readSimilarity({ results }, request)).toEqual({
      bars: [
        { label: 'b', value: 0.9 },
        { label: 'a', value: 0.1 },
      ],
      scores: 'rerank',
    });
  });

  test('a document of another form is an error that says so', () => {
    const error = expect.objectContaining({ code: 'unreadable' });
    expect(() => readSchema({ choices: [] })).toThrow(error);
    expect(() => readDecision([], 'Yes', 'No')).toThrow(error);
    const request = similarityRequest('m', 'embed', 'q', ['a', 'b']);
    expect(() => readSimilarity({ data: [{ index: 0, embedding: [1] }] }, request)).toThrow(error);
  });
});

test.each([
  [[3, 4], [4, 3], 0.96],
  [[0, 0], [4, 3], 0],
])('the cosine of %j and %j is %d', (a, b, want) => expect(cosine(a, b)).toBeCloseTo(want, 12));
