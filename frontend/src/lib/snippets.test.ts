// No model name can break a snippet. The e2e test runs the code.
import { describe, expect, test } from 'vitest';
import { shellQuoted, snippets } from './snippets';

describe('shellQuoted', () => {
  test.each([
    ['http://127.0.0.1:11811/v1', 'http://127.0.0.1:11811/v1'],
    ['a b', "'a b'"],
    ["it's", "'it'\\''s'"],
    ['$(rm)', "'$(rm)'"],
    ['', "''"],
  ])('%s', (text, quoted) => expect(shellQuoted(text)).toBe(quoted));
});

test('address and model appear in every snippet, a trailing slash does not', () => {
  for (const { code } of snippets('http://127.0.0.1:11811/v1/', 'headroom-demo')) {
    expect(code).toContain('http://127.0.0.1:11811/v1/chat/completions');
    expect(code).toContain('headroom-demo');
  }
});

test('a model name with quotes stays inside its string', () => {
  const [curl, python] = snippets('http://h/v1', `it's "x"`);
  expect(curl?.code).toContain(`it'\\''s \\"x\\"`);
  expect(python?.code).toContain(`"it's \\"x\\""`);
});

test('where a key is needed, each snippet sends it', () => {
  for (const { code } of snippets('http://h/v1', 'm', `s'1`))
    expect(code).toMatch(/Authorization\b.*Bearer s'(\\'')?1/);
  for (const { code } of snippets('http://h/v1', 'm')) expect(code).not.toContain('Authorization');
});
