import { expect, test } from 'vitest';
import { parsed, requestFields, samplingFields, samplingFrom, withValue } from './sampling';

const field = (name: string) => samplingFields.find((one) => one.name === name)!;

test.each([
  ['temperature', '0.7', 0.7],
  ['temperature', '0,7', 0.7],
  ['temperature', ' ', undefined],
  ['temperature', '2.1', null],
  ['temperature', 'warm', null],
  ['topK', '40', 40],
  ['topK', '4.5', null],
  ['maxTokens', '2,048', 2048],
  ['maxTokens', '0', null],
  ['presencePenalty', '-2', -2],
])('%s typed as "%s"', (name, text, value) => expect(parsed(field(name), text)).toBe(value));

test('a value is set, and removed again', () => {
  const set = withValue({ topK: 3 }, 'temperature', 0);
  expect(set).toEqual({ topK: 3, temperature: 0 });
  expect(withValue(set, 'temperature', undefined)).toEqual({ topK: 3 });
});

test('a request has the keys of the API, and only values that are set', () => {
  expect(
    requestFields({ temperature: 0, topP: 0.9, repetitionPenalty: 1.1, maxTokens: 9 }),
  ).toEqual({
    temperature: 0,
    top_p: 0.9,
    repetition_penalty: 1.1,
    max_tokens: 9,
  });
});

test('stored values are checked', () => {
  expect(samplingFrom({ temperature: 0.5, topP: 7, topK: 'x', seed: 1.5, other: 1 })).toEqual({
    temperature: 0.5,
  });
  expect(samplingFrom(null)).toEqual({});
});
