// No model name can break a snippet. The e2e test runs the code.
import { describe, expect, test } from 'vitest';
import { requestSnippets, shellQuoted, snippets } from './snippets';

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

describe('a request in four languages', () => {
  const code = (body: Record<string, unknown>, part: (string | number)[] = ['answers', 0]) =>
    Object.fromEntries(
      requestSnippets('http://h/v1/', { path: 'decisions', body, part }, 'secret').map((one) => [
        one.id,
        one.code,
      ]),
    ) as Record<'curl' | 'python' | 'javascript' | 'go', string>;
  const awkward = {
    text: 'it\'s `a` "b"\n\\ \t$HOME ${x} </b>',
    truth: [true, false, null, -1.5e30],
    empty: { list: [], object: {} },
    'a b': 1,
    ['__proto__']: { x: 1 },
    long: Array.from({ length: 30 }, (_, i) => ({ value: i })),
  };

  test('JavaScript sends the body', () => {
    const literal = /body: JSON\.stringify\((.*)\),\n}\);\nconst/s.exec(code(awkward).javascript)!;
    expect(JSON.stringify(new Function(`return ${literal[1]}`)())).toBe(JSON.stringify(awkward));
  });

  test('curl has a short body on one line', () => {
    expect(code({ model: 'm', messages: [{ role: 'user' }] }).curl).toMatch(
      /\n  -d '{"model":"m","messages":\[{"role":"user"}\]}'$/,
    );
    const lines = code({ model: 'm'.repeat(200) })
      .curl.split('\n')
      .slice(-2);
    expect(lines).toEqual([`  "model": "${'m'.repeat(200)}"`, "}'"]);
  });

  test('curl sends the body', () => {
    const word = /-d '(.*)'$/s.exec(code(awkward).curl)![1]!;
    expect(JSON.stringify(JSON.parse(word.replaceAll(`'\\''`, "'")))).toBe(JSON.stringify(awkward));
  });

  test('Go sends the body: in a raw string, unless it has a backquote', () => {
    const quoted = /body := (".*")\n/.exec(code(awkward).go)![1]!;
    expect(JSON.stringify(JSON.parse(JSON.parse(quoted)))).toBe(JSON.stringify(awkward));
    const raw = /body := `(.*)`\n/s.exec(code({ text: 'a\r\nb', long: awkward.long }).go)![1]!;
    expect(JSON.parse(raw)).toEqual({ text: 'a\r\nb', long: awkward.long });
  });

  test('Python has its own words for true, false and null', () => {
    const { python } = code(awkward);
    expect(python).toContain('"truth": [True, False, None, -1.5e+30],');
    expect(python).toContain('"empty": {"list": [], "object": {}},');
  });

  test('each prints the answer, and sends the key to the address', () => {
    const { curl, python, javascript, go } = code({ a: 1 });
    for (const one of [curl, python, javascript, go]) {
      expect(one).toContain('http://h/v1/decisions');
      expect(one).toContain('Bearer secret');
    }
    expect(python).toContain('print(answer["answers"][0])');
    expect(javascript).toContain('console.log(JSON.stringify(answer.answers[0]));');
    expect(go).toContain('io.Copy(os.Stdout, response.Body)');
  });
});
