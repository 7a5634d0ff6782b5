// Tests the pages with the fake backend, as a user sees and operates them.
import { flushSync, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HeadroomError } from './lib/backend/backend';
import { FakeBackend, fakeEngine, fakeState } from './lib/backend/fake';
import { ChatStore } from './lib/stores/chat.svelte';
import { newMessage } from './lib/stores/conversations';
import { EngineStore } from './lib/stores/engine.svelte';
import { pages } from './pages';
import { mountApp, pass } from './testpage';

let backend: FakeBackend;
let engine: EngineStore;
let chat: ChatStore;
let app: Record<string, unknown> | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
  location.hash = '';
});

afterEach(() => {
  if (app) void unmount(app);
  app = null;
  engine.close();
  vi.useRealTimers();
});

async function open(
  change: (state: ReturnType<typeof fakeState>) => void = () => {},
  prepare: (backend: FakeBackend) => void = () => {},
) {
  const state = fakeState(Date.now());
  change(state);
  backend = new FakeBackend(10, state);
  prepare(backend);
  engine = new EngineStore(backend);
  ({ app, chat } = mountApp(backend, engine));
  await pass(0);
}

const text = (selector: string) =>
  document.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const byId = (id: string) => text(`[data-testid="${id}"]`);

function button(name: RegExp): HTMLButtonElement {
  const label = (element: Element) =>
    element.getAttribute('aria-label') ?? element.textContent?.trim() ?? '';
  const found = [...document.querySelectorAll('button')].find((element) =>
    name.test(label(element)),
  );
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

function press(key: string, modifiers: KeyboardEventInit = {}, target: EventTarget = window) {
  target.dispatchEvent(
    new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...modifiers }),
  );
  flushSync();
}

async function type(question: string) {
  const field = document.querySelector('textarea')!;
  field.value = question;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  flushSync();
  press('Enter', { metaKey: true }, field);
}

test('the state says what drafts for the model, or that its draft model is not used', async () => {
  await open();
  expect(byId('facts')).not.toContain('DFlash');
  expect(byId('facts')).toContain('Lookup');
  backend.set((state) => {
    state.engine.lookups = false;
  });
  await pass(10);
  expect(byId('facts')).not.toContain('Lookup');
  backend.set((state) => {
    state.engine.drafter = 'dflash';
    state.engine.draftModel = 'org/small-DFlash';
  });
  await pass(10);
  expect(byId('facts')).toContain('DFlash');
  backend.set((state) => {
    state.engine.draftTokens = 60;
    state.engine.gained = 1.416;
  });
  await pass(10);
  expect(byId('facts')).toContain('DFlash, 1.42x');
  backend.set((state) => {
    state.engine.noDrafts = 'Drafts would have cost more time than they save.';
  });
  await pass(10);
  expect(byId('facts')).toContain('DFlash, no drafts lately');
  backend.set((state) => {
    state.engine.drafter = '';
    state.engine.lookups = true;
    state.engine.noDrafts = '';
  });
  await pass(10);
  expect(byId('facts')).toContain('Lookup, 1.42x');
  backend.set((state) => {
    state.engine.draftModelUnused = 'its vocabulary is another one';
  });
  await pass(10);
  expect(byId('facts')).toContain('Draft model not used');
});

test('measures that save power are shown beside the state of the engine', async () => {
  await open();
  expect(byId('facts')).not.toContain('battery');
  backend.set((state) => {
    state.power = {
      source: 'battery',
      thermalState: 'nominal',
      measures: [
        {
          kind: 'idle_unload',
          title: 'On battery: unloads sooner',
          text: 'On battery, a model is unloaded after 10 idle minutes.',
        },
      ],
    };
  });
  await pass(10);
  expect(byId('facts')).toContain('On battery: unloads sooner');
});

test('a notice says that the GPU is not used', async () => {
  await open();
  expect(byId('notice')).toBe('');
  await open((state) => {
    state.engine.notice = {
      code: 'internal',
      message: 'The GPU is not used, so answers are slower',
      why: 'its self-test failed',
      fix: 'Report it',
    };
  });
  await pass(1);
  expect(byId('notice')).toContain(
    'The GPU is not used, so answers are slower. Its self-test failed. Report it.',
  );
});

test("Overview shows the engine's state and the use of memory", async () => {
  await open();
  expect(byId('state')).toBe('Ready, Headroom demo');
  expect(byId('headroom')).toBe('8.8 GB');
  expect(text('[aria-labelledby="headroom-title"] ul')).toMatch(
    /Weights 4\.1 GB .*Scratch ~410 MB .*Free 9\.8 GB/,
  );
  expect(byId('decode')).toBe('212');
  expect(document.querySelectorAll('[data-testid="request"]')).toHaveLength(2);
  expect(byId('request')).toMatch(/Prefill.*3,072 of 8,192 tokens 25 % cached/);
});

test.each([
  ['', 1, 'Bearer YOUR_API_KEY'],
  ['s3cret', 1, 'Bearer s3cret'],
  ['', 0, undefined],
])('with the key %j and %d named keys the example has %s', async (apiKey, named, want) => {
  await open(
    () => {},
    (backend) => {
      backend.general = { ...backend.general, apiKey };
      backend.named = backend.named.slice(0, named);
    },
  );
  await pass(1);
  const example = text('pre');
  expect(example).toContain('curl');
  expect(/Bearer \w+/.exec(example)?.[0]).toBe(want);
});

test('the switch stops and starts the engine, and shows the progress of loading', async () => {
  await open();
  button(/^Stop the engine/).click();
  await pass(0);
  expect(byId('state')).toBe('Stopped');
  button(/^Start the engine/).click();
  await pass(12);
  expect(byId('state')).toBe('Loading, Headroom demo');
  expect(document.querySelector('[aria-label^="Loading "]')?.getAttribute('aria-valuenow')).toBe(
    '25',
  );
  await pass(1000);
  expect(byId('state')).toBe('Ready, Headroom demo');
  expect(backend.calls).toEqual(['stop', 'start headroom-demo']);
});

test('further models are listed, and each is stopped alone', async () => {
  await open();
  const listed = () =>
    [...document.querySelectorAll('[data-testid="loaded"]')].map((row) =>
      row.textContent.replace(/\s+/g, ' ').trim(),
    );
  expect(listed()).toEqual([]); // the one in front is shown above
  backend.beside = [
    {
      ...fakeEngine('mlx-community/Qwen3.5-9B-4bit'),
      status: 'busy',
      requests: 2,
      requested: true,
    },
  ];
  backend.set(() => {});
  await pass(0);
  expect(listed()).toEqual([
    'Headroom demo Ready 1.2 GB Stop',
    'Qwen3.5-9B-4bit Busy, 2 active, Loaded by a request 1.2 GB Stop',
  ]);
  button(/^Stop Qwen3\.5-9B/).click();
  await pass(0);
  expect(backend.calls).toEqual(['stop mlx-community/Qwen3.5-9B-4bit']);
  expect(listed()).toEqual([]);
  expect(byId('state')).toBe('Ready, Headroom demo');
});

test('an error shows what failed, why and what to do, and can be dismissed', async () => {
  await open();
  backend.nextError = new HeadroomError({
    code: 'does_not_fit',
    message: 'What.',
    why: 'Why.',
    fix: 'Fix.',
  });
  button(/^Stop the engine/).click();
  await pass(0);
  expect(text('[role="alert"]')).toMatch(/^What\. Why\. Fix\. Details does_not_fit/);
  button(/^Dismiss/).click();
  flushSync();
  expect(document.querySelector('[role="alert"]')).toBeNull();
});

test('a failed engine offers Try again', async () => {
  await open((state) => {
    state.engine = {
      ...state.engine,
      status: 'failed',
      error: { code: 'bad_file', message: 'What.', why: 'Why.', fix: 'Fix.' },
    };
  });
  expect(byId('state')).toBe('Failed');
  button(/^Try again/).click();
  await pass(1000);
  expect(byId('state')).toBe('Ready, Headroom demo');
});

/** A model that has crashed three times and is loaded again in 40 s. */
const crashing = (state: ReturnType<typeof fakeState>) =>
  Object.assign(state.engine, {
    status: 'failed',
    retryAt: Date.now() + 40_000,
    error: {
      code: 'model_crashed',
      message: 'The model crashed 3 times in a row',
      why: 'it was killed',
      fix: 'It is loaded again at 10:00:40.',
    },
  });

test('a model that is loaded again by itself shows when, and Try now does not wait', async () => {
  await open(crashing);
  expect(byId('state')).toBe('Failed');
  expect(byId('facts')).toContain('Loading again in 40 s');
  expect(byId('facts')).not.toContain('No model is loaded');
  // A screen reader would read an alert again at each change, so the time is not in it.
  expect(text('[role="alert"]')).toMatch(
    /^The model crashed 3 times in a row\. It was killed\. Try now Stop trying Details/,
  );
  await pass(31_000);
  expect(byId('facts')).toContain('Loading again in 9 s');
  await pass(10_000);
  expect(byId('facts')).toMatch(/Loading again(?! in)/);
  button(/^Try now/).click();
  await pass(1000);
  expect(backend.calls).toEqual(['start headroom-demo']);
  expect(byId('state')).toBe('Ready, Headroom demo');
  expect(byId('facts')).not.toContain('Loading again');
});

test('Stop trying ends the attempts to load a model', async () => {
  await open(crashing);
  button(/^Stop trying/).click();
  await pass(10);
  expect(backend.calls).toEqual(['stop']);
  expect(byId('state')).toBe('Stopped');
  expect(document.querySelector('[role="alert"]')).toBeNull();
});

test('Cancel ends the request', async () => {
  await open();
  button(/^Cancel/).click();
  flushSync();
  expect(backend.calls).toEqual(['cancel chatcmpl-1']);
  await pass(0);
  expect(document.querySelectorAll('[data-testid="request"]')).toHaveLength(1);
});

test('a model that does not fit cannot be picked, and shows its need', async () => {
  await open();
  const option = document.querySelector<HTMLOptionElement>('option[value="qwen3.6-35b-a3b"]')!;
  expect(option.disabled).toBe(true);
  expect(option.textContent).toBe('Qwen3.6-35B-A3B, needs 19.4 GB, 15.5 GB available');
});

test('every page shows a lost connection, and the switch is disabled', async () => {
  await open();
  backend.connect({ status: 'lost', retryAt: Date.now() + 3000 });
  flushSync();
  expect(text('.banner')).toMatch(/^Connection lost\. .*Next try in 3 s Try now/);
  expect(button(/the engine/).disabled).toBe(true);
  press('2', { metaKey: true });
  expect(text('.banner')).toMatch(/^Connection lost/);
  button(/^Try now/).click();
  flushSync();
  expect(document.querySelector('.banner')).toBeNull();
});

test('without a valid token, an explanation replaces all pages', async () => {
  await open();
  backend.connect({ status: 'unauthorized' });
  flushSync();
  expect(document.body.textContent).toMatch(/Open Headroom from the menu bar/);
  expect(document.querySelector('nav')).toBeNull();
});

test('the keyboard changes pages', async () => {
  await open();
  press('2', { ctrlKey: true });
  expect(location.hash).toBe('#page=chat');
  expect(document.querySelector('textarea')).not.toBeNull();
  press('1', { metaKey: true });
  expect(byId('state')).toMatch(/^Ready/);
  press(String(pages.length + 1), { metaKey: true });
  expect(byId('state')).toMatch(/^Ready/);
});

test('an answer that was decoded ahead says how many drafts were accepted', async () => {
  await open();
  press('2', { metaKey: true });
  await type('What is 12 - 5?');
  await pass(3000);
  expect(byId('stats')).toMatch(/reused\s?3 of 4 drafts accepted\s?Mark\s?first token in/);
});

test('the accepted drafts of an answer are marked on demand', async () => {
  await open();
  press('2', { metaKey: true });
  await type('What is 12 - 5?');
  await pass(3000);
  const mark = () => document.querySelector<HTMLButtonElement>('[data-testid="stats"] button')!;
  expect(mark().getAttribute('aria-label')).toBe('Mark accepted drafts in the answer');
  expect(mark().getAttribute('aria-checked')).toBe('false');
  expect(document.querySelector('mark')).toBeNull();
  mark().click();
  await pass(10);
  expect(mark().getAttribute('aria-checked')).toBe('true');
  expect(document.querySelector('[data-testid="marked"]')!.textContent).toBe('12 - 5 = 7.');
  expect([...document.querySelectorAll('mark')].map((one) => one.textContent)).toEqual([' - 5 =']);
  expect(document.querySelector('.markdown')).toBeNull();
  mark().click();
  await pass(10);
  expect(document.querySelector('mark')).toBeNull();
  expect(document.querySelector('.markdown')!.textContent).toMatch(/12 - 5 = 7\./);
});

test('a conversation shows prefill progress, answer and statistics, and is saved', async () => {
  await open();
  press('2', { metaKey: true });
  await type('What is a KV cache?');
  await pass(60);
  expect(byId('answer')).toMatch(/Prefill, \d+ of 512 tokens/);
  await pass(3000);
  expect(document.querySelector('[data-testid="answer"] blockquote')?.textContent?.trim()).toBe(
    'What is a KV cache?',
  );
  expect(byId('stats')).toMatch(
    /tok\/s\s?\d+ tokens\s?384 of 512 prompt tokens reused\s?first token in/,
  );
  expect(backend.asked[0]).toEqual({
    model: 'headroom-demo',
    messages: [{ role: 'user', content: 'What is a KV cache?' }],
    thinking: false,
    sampling: {},
    tools: [],
  });
  expect([...backend.chats.kept.values()]).toMatchObject([
    {
      summary: { title: 'What is a KV cache?' },
      messages: [{ role: 'user' }, { role: 'assistant', end: 'stop' }],
    },
  ]);
});

test('a conversation that nests without end opens, and can be gone on with', async () => {
  const endless = '>'.repeat(6000); // models that loop write this
  await open(undefined, ({ chats }) => {
    chats.put('endless', 'Endless', Date.now(), [
      newMessage('user', 'Go on.'),
      { ...newMessage('assistant', endless), end: 'length' },
    ]);
  });
  press('2', { metaKey: true });
  await pass(100);
  expect(text('h1')).toBe('Chat');
  button(/^Endless/).click();
  await pass(100);
  expect(text('[data-testid="answer"] .markdown')).toBe(endless);
  await type('And now?');
  await pass(3000);
  expect(backend.asked[0]?.messages).toHaveLength(3);
});

test('reasoning is folded and is not sent back', async () => {
  await open();
  press('2', { metaKey: true });
  button(/^Thinking off/).click();
  flushSync();
  await type('First');
  await pass(3000);
  const reasoning = document.querySelector<HTMLDetailsElement>('[data-testid="reasoning"]')!;
  expect(reasoning.open).toBe(false);
  expect(text('[data-testid="reasoning"] summary')).toMatch(/^Thought, \d+ tokens, /);
  await type('Second');
  await pass(3000);
  expect(backend.asked[1]?.thinking).toBe(true);
  expect(JSON.stringify(backend.asked[1]?.messages)).not.toContain('I repeat it');
});

test('Escape stops the answer and keeps its text', async () => {
  await open();
  press('2', { metaKey: true });
  await type('Hello there');
  await pass(120);
  press('Escape');
  await pass(100);
  expect(byId('answer')).toMatch(/You said.*Stopped\./);
  expect(chat.run).toBeNull();
});

test('Retry asks again and removes later messages', async () => {
  await open();
  press('2', { metaKey: true });
  await type('One');
  await pass(3000);
  await type('Two');
  await pass(3000);
  [...document.querySelectorAll('button')]
    .find((element) => element.textContent?.trim() === 'Retry')!
    .click();
  await pass(3000);
  expect(document.querySelectorAll('[data-testid="answer"]')).toHaveLength(1);
  expect(backend.asked[2]?.messages).toEqual([{ role: 'user', content: 'One' }]);
});

test('a failed answer is shown in the thread, and Retry recovers', async () => {
  await open();
  press('2', { metaKey: true });
  backend.nextError = new HeadroomError({
    code: 'busy',
    message: 'What.',
    why: 'Why.',
    fix: 'Fix.',
  });
  await type('Hello');
  await pass(100);
  expect(text('[data-testid="answer"] [role="alert"]')).toMatch(/^What\. Why\. Fix\. Retry/);
  button(/^Retry/).click();
  await pass(3000);
  expect(document.querySelector('[role="alert"]')).toBeNull();
  expect(byId('answer')).toMatch(/You said/);
});

test('an answer that another client cancels is stopped, not failed', async () => {
  await open();
  press('2', { metaKey: true });
  backend.nextError = new HeadroomError({
    code: 'cancelled',
    message: 'Cancelled.',
    why: '',
    fix: '',
  });
  await type('Hello');
  await pass(100);
  expect(byId('answer')).toMatch(/^Stopped\./);
  expect(document.querySelector('[role="alert"]')).toBeNull();
});

test('while no model is running, Chat offers to start one', async () => {
  await open((state) => (state.engine = { ...state.engine, status: 'stopped', model: '' }));
  press('2', { metaKey: true });
  expect(text('.offer')).toMatch(
    /No model is running Headroom demo needs ~307 MB, 15\.5 GB available\. Start Headroom demo/,
  );
  button(/^Start Headroom demo/).click();
  await pass(1000);
  expect(document.querySelector('.offer')).toBeNull();
});

test('an answer continues while another page is shown', async () => {
  await open();
  press('2', { metaKey: true });
  await type('Hello there');
  await pass(50);
  press('1', { metaKey: true });
  await pass(3000);
  press('2', { metaKey: true });
  expect(byId('answer')).toMatch(/You said/);
});

test('the palette finds pages, models and actions by the keyboard alone', async () => {
  await open();
  press('k', { ctrlKey: true });
  const field = document.querySelector<HTMLInputElement>('[role="combobox"]')!;
  const options = () =>
    [...document.querySelectorAll('[role="option"]')].map(
      (one) => one.querySelector('.label')!.textContent,
    );
  const find = (words: string) => {
    field.value = words;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    flushSync();
  };
  expect(document.activeElement).toBe(field);
  expect(options().slice(0, 3)).toEqual(['Overview', 'Chat', 'Models']);
  for (const word of ['download', 'import', 'wired', 'forget', 'log', 'port', 'key']) {
    find(word);
    expect(options(), word).not.toEqual([]);
  }
  for (const [word, label] of [
    ['bug', 'Report a bug'],
    ['crash', 'Report a bug'],
    ['update', 'Updates'],
    ['version', 'Updates'],
    ['speed', 'Speed and memory over time'],
  ]) {
    find(word!);
    expect(options()[0], word).toBe(label);
  }
  find('');
  press('ArrowDown', {}, field);
  const active = document.getElementById(field.getAttribute('aria-activedescendant')!)!;
  expect([active.textContent?.includes('Chat'), active.getAttribute('aria-selected')]).toEqual([
    true,
    'true',
  ]);
  press('ArrowUp', {}, field);
  press('ArrowUp', {}, field); // wraps around to the last command
  expect(
    document.getElementById(field.getAttribute('aria-activedescendant')!)!.textContent,
  ).toMatch(/^Start /);
  find('stop');
  expect(options()).toEqual(['Stop the engine']);
  find('nothing like it');
  expect(text('dialog [role="status"]')).toBe('No results.');
  press('Enter', {}, field);
  find('memory');
  press('Enter', {}, field);
  expect(document.querySelector('[role="combobox"]')).toBeNull();
  expect(location.hash).toBe('#page=memory');
  expect(backend.calls.filter((call) => /^(start|stop)/.test(call))).toEqual([]);
  press('k', { metaKey: true });
  press('k', { metaKey: true });
  expect(document.querySelector('[role="combobox"]')).toBeNull();
});

test('a request that waits for memory says how much', async () => {
  await open((state) => {
    Object.assign(state.requests[0]!, { phase: 'waiting', lacksBytes: 1.5 * 2 ** 30 });
  });
  press('1', { metaKey: true });
  await pass(10);
  const text = document.querySelector('[data-testid="request"]')?.textContent ?? '';
  expect(text).toContain('Waiting for 1.5 GB of memory');
});

test('editing a question removes later messages', async () => {
  await open((state) => (state.requests = []));
  press('2', { metaKey: true });
  await pass(1);
  await type('first');
  await pass(2000);
  await type('second');
  await pass(2000);
  button(/^Edit this question$/).click();
  await pass(1);
  const field = document.querySelector<HTMLTextAreaElement>('[aria-label="Edit your question"]')!;
  expect(field.value).toBe('first');
  field.value = 'another';
  field.dispatchEvent(new Event('input', { bubbles: true }));
  flushSync();
  press('Enter', { metaKey: true }, field);
  await pass(2000);
  expect(backend.asked.at(-1)!.messages).toEqual([{ role: 'user', content: 'another' }]);
  expect(chat.open!.messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
  expect(chat.open!.title).toBe('another');
});

test('answer settings and tools go with the next question; tool calls are shown', async () => {
  await open((state) => (state.requests = []));
  press('2', { metaKey: true });
  await pass(1);
  button(/^Answer settings$/).click();
  await pass(1);
  const change = (id: string, value: string) => {
    const field = document.querySelector<HTMLInputElement>(id)!;
    field.value = value;
    field.dispatchEvent(new Event('change', { bubbles: true }));
    flushSync();
  };
  change('#chat-temperature', '3');
  expect(text('#chat-temperature-help')).toBe('A number, 0 to 2.');
  change('#chat-temperature', '0.2');
  change('#chat-tools', '{}');
  expect(text('#chat-tools-help')).toMatch(/^Enter a JSON list/);
  change('#chat-tools', '[{"type":"function","function":{"name":"weather"}}]');
  button(/^Close$/).click();
  await pass(1);
  expect(button(/^Answer settings, changed$/)).toBeTruthy();
  await type('what is it like in Oslo?');
  await pass(2000);
  expect(backend.asked.at(-1)).toMatchObject({
    sampling: { temperature: 0.2 },
    tools: [{ type: 'function' }],
  });
  expect(text('[data-testid="call"]')).toBe('Calls weather { "city": "Oslo" }');
  expect(new ChatStore(backend, localStorage)).toMatchObject({
    sampling: { temperature: 0.2 },
    tools: [{ type: 'function' }],
  });
});
