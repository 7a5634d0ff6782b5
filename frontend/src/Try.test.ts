// Tests the Try page with the fake backend, as a user sees and operates it.
import { mount, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HeadroomError } from './lib/backend/backend';
import { FakeBackend, fakeModel, fakeState } from './lib/backend/fake';
import { EngineStore } from './lib/stores/engine.svelte';
import { SettingsStore } from './lib/stores/settings.svelte';
import { TryStore } from './lib/stores/tries.svelte';
import Try from './views/Try.svelte';
import { pass } from './testpage';

let backend: FakeBackend;
let engine: EngineStore;
let tries: TryStore;
let page: Record<string, unknown> | null = null;

beforeEach(() => void vi.useFakeTimers());

afterEach(() => {
  if (page) void unmount(page);
  page = null;
  engine.close();
  vi.useRealTimers();
});

async function open(change: (backend: FakeBackend) => void = () => {}) {
  backend = new FakeBackend(0, fakeState(Date.now()));
  change(backend);
  engine = new EngineStore(backend);
  tries = new TryStore();
  await show();
}

async function show() {
  if (page) void unmount(page);
  document.body.innerHTML = '';
  const settings = new SettingsStore(backend, localStorage);
  page = mount(Try, { target: document.body, props: { engine, settings, tries } });
  await pass(10);
}

const text = (selector: string) =>
  document.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const answer = () => text('[data-testid="answer"]');
const code = () => document.querySelector('[data-testid="code"]')?.textContent ?? '';
const bars = () =>
  [...document.querySelectorAll<HTMLElement>('[data-testid="bar"]')].map((bar) =>
    [...bar.querySelectorAll('p')].map(({ textContent }) => textContent).join(': '),
  );
const status = () => text('.row [role="status"]');
/** The body of the last request. */
const asked = (): Record<string, unknown> => {
  const last = backend.calls.filter((call) => call.startsWith('ask ')).at(-1) ?? '';
  return JSON.parse(last.replace(/^ask \S+ /, '') || '{}') as Record<string, unknown>;
};

function button(name: RegExp): HTMLButtonElement {
  const label = (element: Element) =>
    element.getAttribute('aria-label') ?? element.textContent?.replace(/\s+/g, ' ').trim() ?? '';
  const found = [...document.querySelectorAll('button')].find((one) => name.test(label(one)));
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

async function click(name: RegExp) {
  button(name).click();
  await pass(10);
}

async function fill(id: string, value: string, event = 'input') {
  const field = document.querySelector<HTMLTextAreaElement>(`#${id}`)!;
  field.value = value;
  field.dispatchEvent(new Event(event, { bubbles: true }));
  await pass(10);
}

async function press(key: string, options: KeyboardEventInit = {}) {
  document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, ...options }));
  await pass(10);
}

const refusal = new HeadroomError({
  code: 'invalid_request_error',
  message: '"not" at #/properties/a cannot be enforced',
  why: '',
  fix: '',
});

test('every field has a label', async () => {
  await open();
  for (const part of [/^Schema$/, /^Decision$/, /^Score$/, /^Similarity$/]) {
    await click(part);
    const fields = [...document.querySelectorAll('textarea, select')];
    expect(fields.length).toBeGreaterThan(1);
    for (const { id } of fields) expect(text(`label[for="${id}"]`), id).not.toBe('');
  }
});

test('the answer with a schema is indented JSON with the time, and can be copied', async () => {
  await open((b) => (b.pauseMs = 1500));
  expect(answer()).toBe('The answer appears here.');
  await fill('try-schema', '{"type": "object", "properties": {"city": {"enum": ["Oslo"]}}}');
  await click(/^Run$/);
  expect(status()).toBe('Running, 0 s');
  await pass(1500);
  expect(document.querySelector('[data-testid="answer"] code')?.textContent).toBe(
    '{\n  "city": "Oslo"\n}',
  );
  expect(status()).toBe('Took 1.5 s');
  expect(button(/^Copy: answer$/)).toBeTruthy();
  expect(asked()).toMatchObject({
    model: 'headroom-demo',
    response_format: {
      json_schema: { schema: { type: 'object', properties: { city: { enum: ['Oslo'] } } } },
    },
  });
});

test('the answer stays until the next one, or until there is none', async () => {
  await open((b) => (b.pauseMs = 1000));
  await fill('try-schema', '{"enum": ["first"]}');
  await click(/^Run$/);
  await pass(1000);
  await fill('try-schema', '{"enum": ["second"]}');
  await click(/^Run$/);
  expect(answer()).toBe('"first"');
  expect(document.querySelector('[data-testid="answer"] .old')).not.toBeNull();
  await pass(1000);
  expect(answer()).toBe('"second"');
  expect(document.querySelector('[data-testid="answer"] .old')).toBeNull();
  await click(/^Run$/);
  await click(/^Stop$/);
  await pass(1000);
  expect(answer()).toBe('Stopped.');
});

test('an answer that is not complete says what to do', async () => {
  await open();
  const choice = { message: { content: '{"city": "O' }, finish_reason: 'length' };
  backend.ask = () => Promise.resolve({ choices: [choice] });
  await click(/^Run$/);
  expect(answer()).toMatch(/^\{"city": "O The answer reached its limit of 1,024 tokens /);
  expect(answer()).toMatch(/ set maxLength and maxItems in the schema\.$/);
});

test('a schema that is not JSON says so, and is not sent', async () => {
  await open();
  await fill('try-schema', '{"type": ');
  expect(text('#try-schema-help')).toMatch(/^This is not JSON: /);
  expect(document.querySelector('#try-schema')?.getAttribute('aria-invalid')).toBe('true');
  expect(button(/^Run$/).disabled).toBe(true);
  await press('Enter', { ctrlKey: true });
  expect(asked()).toEqual({});
  expect(code()).toBe('');
  await fill('try-schema', '{}');
  expect(text('#try-schema-help')).toBe('The answer has its members in this order.');
  expect(button(/^Run$/).disabled).toBe(false);
});

test('a refused schema shows the sentence of the server, until dismissed', async () => {
  await open((b) => (b.nextError = refusal));
  await show(); // Loading the settings has thrown the first one.
  backend.nextError = refusal;
  await click(/^Run$/);
  expect(text('[data-testid="answer"] [role="alert"]')).toMatch(
    /^"not" at #\/properties\/a cannot be enforced\.? /,
  );
  await click(/^Dismiss$/);
  expect(answer()).toBe('The answer appears here.');
});

test.each([
  ['the button', () => click(/^Stop$/)],
  ['Escape', () => press('Escape')],
])('%s stops a request; the keyboard runs it', async (_, stop) => {
  await open((b) => (b.pauseMs = 5000));
  await press('Enter', { ctrlKey: true });
  await pass(2000);
  expect(status()).toBe('Running, 2 s');
  await stop();
  await pass(5000);
  expect(status()).toBe('Stopped.');
  expect(document.querySelector('[role="alert"]')).toBeNull();
  expect(button(/^Run$/).disabled).toBe(false);
});

test('a predicate has two bars', async () => {
  await open();
  await click(/^Decision$/);
  await click(/^Run$/);
  expect(bars()).toEqual(['Yes: 90 %', 'No: 10 %']);
  const fill = document.querySelector<HTMLElement>('[data-testid="bar"] .bar span');
  expect(fill?.style.width).toBe('90%');
  expect(document.querySelector('#try-options')).toBeNull();
  expect(document.querySelector('dl')).toBeNull();
});

test('a choice has its options, a score its levels and the expected one', async () => {
  await open();
  await click(/^Decision$/);
  await click(/^Choice$/);
  await fill('try-options', 'tea\n\n coffee \nwater');
  await click(/^Run$/);
  expect(bars()).toEqual(['tea: 50 %', 'coffee: 25 %', 'water: 25 %']);
  expect(text('dl')).toBe('Confidence 25 %');
  await click(/^Score$/);
  expect(bars()).toEqual([]);
  await fill('try-options', 'low\nhigh');
  await fill('try-instructions', 'How much?');
  await click(/^Run$/);
  expect(asked().questions).toEqual([
    { type: 'score', instructions: 'How much?', levels: [{ label: 'low' }, { label: 'high' }] },
  ]);
  expect(text('dl')).toBe('Score 0.50 of 1 Confidence 25 %');
  await click(/^Choice$/);
  expect(bars()).toHaveLength(3);
  expect(document.querySelector<HTMLTextAreaElement>('#try-options')?.value).toMatch(/^tea/);
  await fill('try-options', 'one option');
  expect(button(/^Run$/).disabled).toBe(true);
});

const embedder = fakeModel({ id: 'org/embedder', name: 'embedder', task: 'embed' });
const reranker = fakeModel({ id: 'org/reranker', name: 'reranker', task: 'rerank' });

test('an embedding model orders texts by the cosine of their vectors', async () => {
  await open((b) => b.found.push(embedder, reranker));
  await click(/^Similarity$/);
  expect(text('.choice')).toMatch(/The request loads this model\.$/);
  await fill('try-query', 'abc');
  await fill('try-texts', 'xyz\nabd\ncab');
  await click(/^Run$/);
  expect(asked()).toEqual({ model: 'org/embedder', input: ['abc', 'xyz', 'abd', 'cab'] });
  expect(bars()).toEqual(['cab: 1.000', 'abd: 0.667', 'xyz: 0.000']);
  expect(answer()).toContain('The cosine of the vectors');
  await fill('try-model', 'org/reranker', 'change');
  expect(answer()).toContain('The cosine of the vectors');
});

test('a reranker orders documents by their scores', async () => {
  await open((b) => b.found.push(embedder, reranker));
  await click(/^Similarity$/);
  await fill('try-model', 'org/reranker', 'change');
  expect(text('label[for="try-texts"]')).toBe('Documents');
  await fill('try-query', 'red lamp');
  await fill('try-texts', 'a blue lamp\nthe red lamp');
  await click(/^Run$/);
  expect(bars()).toEqual(['the red lamp: 1.000', 'a blue lamp: 0.500']);
  expect(answer()).toContain('How well the document answers the query');
});

test('without a model for similarity, one is offered for download', async () => {
  await open();
  await click(/^Similarity$/);
  expect(text('[data-testid="no-model"]')).toMatch(
    /^Similarity needs an embedding model or a reranker Headroom demo is a language model: /,
  );
  expect(button(/^Run$/).disabled).toBe(true);
  await click(/^Download Qwen\/Qwen3-Embedding-0\.6B, 1\.2 GB$/);
  expect(backend.calls.some((call) => call.includes('Qwen/Qwen3-Embedding-0.6B'))).toBe(true);
});

test('while no model runs, it can be started; fields can be changed while it loads', async () => {
  await open((b) => {
    b.pauseMs = 1000;
    Object.assign(b.state.engine, { status: 'stopped', model: '' });
  });
  expect(button(/^Run$/).disabled).toBe(true);
  await click(/^Start Headroom demo$/);
  expect(text('.offer')).toMatch(/^Loading Headroom demo 0 %\. You can change the fields\.$/);
  await pass(5000);
  expect(document.querySelector('.offer')).toBeNull();
  expect(button(/^Run$/).disabled).toBe(false);
});

test('the code is in step with the fields, in four languages', async () => {
  await open((b) => (b.general.apiKey = 'secret'));
  await pass(10);
  for (const language of [/^curl$/, /^Python$/, /^JavaScript$/, /^Go$/]) {
    await click(language);
    await click(/^Schema$/);
    await fill('try-prompt', `Written for ${language.source}`);
    expect(code()).toContain(`Written for ${language.source}`);
    expect(code()).toContain('/v1/chat/completions');
    expect(code()).toContain('Bearer secret');
    await click(/^Decision$/);
    await fill('try-text', `Text of ${language.source}`);
    expect(code()).toContain(`Text of ${language.source}`);
    expect(code()).toContain('/v1/decisions');
  }
  expect(button(/^Copy: Go code$/)).toBeTruthy();
});

test('fields and answers stay while another page is open', async () => {
  await open();
  await click(/^Decision$/);
  await fill('try-text', 'Stays.');
  await click(/^Run$/);
  await show();
  expect(document.querySelector<HTMLTextAreaElement>('#try-text')?.value).toBe('Stays.');
  expect(bars()).toHaveLength(2);
});
