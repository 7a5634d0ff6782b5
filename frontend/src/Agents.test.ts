// Tests the Agents page with the fake backend, as a user sees and operates it.
import { flushSync } from 'svelte';
import { expect, test } from 'vitest';
import { FakeBackend } from './lib/backend/fake';
import Agents from './views/Agents.svelte';
import { pass, testPage } from './testpage';

const openPage = testPage(Agents, (engine) => ({ engine }), 300);
let backend: FakeBackend;

async function open(change?: (backend: FakeBackend) => void) {
  ({ backend } = await openPage(change));
}

const text = (selector: string) =>
  document.querySelector(selector)?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const dialog = () => text('dialog');

function button(name: string): HTMLButtonElement {
  const found = [...document.querySelectorAll('button')].filter(
    (element) => (element.getAttribute('aria-label') ?? element.textContent?.trim()) === name,
  );
  if (found.length !== 1) throw new Error(`${found.length} buttons ${name}`);
  return found[0]!;
}

async function click(name: string) {
  button(name).click();
  await pass(10);
}

const state = (id: string) => text(`[data-testid="agent-${id}"] [data-testid="agent-state"]`);
const calls = () => backend.calls.filter((call) => /^(write|undo|launch) /.test(call));

test('a change is shown line by line before it is written, and can be undone', async () => {
  await open();
  expect(state('codex')).toBe('Not set up');
  await click('Set Up… Codex');
  expect(dialog()).toContain('This changes ~/.codex/config.toml.');
  expect(
    [...document.querySelectorAll('[data-kind]')].map((line) => [
      line.getAttribute('data-kind'),
      line.querySelector('code')?.textContent,
    ]),
  ).toEqual([
    ['gap', '…'],
    ['same', '# mine'],
    ['removed', 'model = "gpt"'],
    ['added', 'model = "mlx-community/Qwen3.6-35B-A3B-4bit"'],
  ]);
  expect(calls()).toEqual([]);
  await click('Cancel');
  expect(calls()).toEqual([]);
  await click('Set Up… Codex');
  await click('Write');
  expect(calls()).toEqual(['write codex mlx-community/Qwen3.6-35B-A3B-4bit']);
  expect(document.querySelector('dialog')).toBeNull();
  expect(text('[role=status]')).toBe('Codex is set up.');
  expect(state('codex')).toBe('Set up');
  await click('Show… Codex');
  expect(dialog()).toContain('Nothing changes');
  await click('Done');
  await click('Undo… Codex');
  expect(dialog()).toContain('byte for byte');
  await click('Undo');
  expect(calls()[1]).toBe('undo codex');
  expect(state('codex')).toBe('Not set up');
});

test('a file that changed meanwhile is not written, and can be looked at again', async () => {
  await open();
  await click('Set Up… Codex');
  const { plan } = backend.agents;
  backend.agents.plan = async (id, model) => ({
    ...(await plan.call(backend.agents, id, model)),
    token: 'another',
  });
  await click('Write');
  expect(dialog()).toContain('The file has changed since it was shown');
  expect(state('codex')).toBe('Not set up');
  await click('Look Again');
  await click('Write');
  expect(state('codex')).toBe('Set up');
});

test('a key that is needed is named before it is made', async () => {
  await open((fake) => (fake.agents.needsKey = true));
  await click('Set Up… Codex');
  expect(dialog()).toContain('the key “Codex” is made');
  await click('Write');
  expect(text('[data-testid="agent-codex"]')).toContain('API key “Codex”');
});

test('launching writes nothing, and takes a folder', async () => {
  await open();
  await click('Launch in Terminal… Claude Code');
  expect(dialog()).toContain('export BASE_URL=http://127.0.0.1:11811');
  const field = document.querySelector<HTMLInputElement>('#agent-folder')!;
  field.value = ' /home/me/project ';
  field.dispatchEvent(new Event('input', { bubbles: true }));
  await click('Launch');
  expect(calls()).toEqual([
    'launch claude-code mlx-community/Qwen3.6-35B-A3B-4bit /home/me/project',
  ]);
});

test('an agent without a file has steps, and one with a broken file says so', async () => {
  await open();
  expect(state('xcode')).toBe('By hand');
  await click('Show Steps… Xcode');
  expect(dialog()).toContain('Headroom cannot write these settings');
  expect(dialog()).toContain('Locally Hosted');
  await click('Done');
  expect(text('[data-testid="agent-continue"]')).toContain('a bracket is missing');
  expect(text('[data-testid="agent-opencode"]')).toContain('Not found on this computer');
});

test('the answer for a model that was chosen before does not replace the later one', async () => {
  await open();
  const list = backend.agents.list.bind(backend.agents);
  const waits = [200, 10];
  backend.agents.list = async (model) => {
    const answer = await list(model);
    await new Promise((done) => setTimeout(done, waits.shift()));
    return { ...answer, target: { ...answer.target, url: `for ${model}` } };
  };
  const select = document.querySelector<HTMLSelectElement>('#agents-model')!;
  const [first, second] = [...select.options].map(({ value }) => value);
  for (const value of [second!, first!]) {
    select.value = value;
    select.dispatchEvent(new Event('change', { bubbles: true }));
    flushSync();
  }
  await pass(300);
  expect(text('.choice code')).toBe(`at for ${first}`);
});
