// Tests the Settings page with the fake backend, as a user sees and operates it.
import { flushSync } from 'svelte';
import { expect, test, vi } from 'vitest';
import { HeadroomError } from './lib/backend/backend';
import { FakeBackend } from './lib/backend/fake';
import { EngineStore } from './lib/stores/engine.svelte';
import { SettingsStore, logText, matching } from './lib/stores/settings.svelte';
import { WelcomeStore } from './lib/stores/welcome.svelte';
import Settings from './views/Settings.svelte';
import { pass, testPage } from './testpage';

const openPage = testPage(Settings, (engine, backend) => ({
  engine,
  settings: new SettingsStore(backend, localStorage),
  welcome: new WelcomeStore(backend),
}));
let backend: FakeBackend;
let engine: EngineStore;

async function open(change?: (backend: FakeBackend) => void) {
  ({ backend, engine } = await openPage(change));
}

const status = () => document.querySelector('.head [role="status"]')?.textContent;
const field = (id: string) => document.querySelector<HTMLInputElement>(`#setting-${id}`)!;
const calls = () => backend.calls.filter((call) => call.startsWith('general'));

async function set(id: string, value: string) {
  field(id).value = value;
  field(id).dispatchEvent(new Event('change', { bubbles: true }));
  await pass(10);
}

function button(name: string): HTMLButtonElement {
  const found = [...document.querySelectorAll('button')].find(
    (element) => (element.getAttribute('aria-label') ?? element.textContent)?.trim() === name,
  );
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

test('a change applies at once and can be undone', async () => {
  await open();
  await set('idleUnloadMinutes', '30');
  expect(calls()).toEqual(['general {"idleUnloadMinutes":30}']);
  expect(status()).toBe('Saved.');
  button('Undo').click();
  await pass(10);
  expect(calls().at(-1)).toBe('general {"idleUnloadMinutes":0}');
  expect(field('idleUnloadMinutes').value).toBe('0');
  expect(() => button('Undo')).toThrow();
  button('Start at login').click();
  await pass(10);
  expect(calls().at(-1)).toBe('general {"startAtLogin":true}');
  for (const [label, key] of [
    ['Save on battery', 'saveOnBattery'],
    ['Slow down when hot', 'throttleWhenHot'],
    ['Free memory under pressure', 'freeUnderPressure'],
  ] as const) {
    button(label).click();
    await pass(10);
    expect(calls().at(-1)).toBe(`general {"${key}":false}`);
  }
});

test('the import folder can be set, and the page says when it takes effect', async () => {
  await open();
  await set('importFolder', ' /Volumes/Disk/models ');
  expect(calls()).toEqual(['general {"importFolder":"/Volumes/Disk/models"}']);
  expect(status()).toBe('Saved. Used for the next import.');
});

test('an invalid port shows an error; a valid one applies after a restart', async () => {
  await open();
  await set('port', '99999');
  expect(document.querySelector('#setting-port-help')?.textContent).toContain(
    'Ports are 1 to 65535.',
  );
  expect(calls()).toEqual([]);
  await set('port', '12000');
  expect(calls()).toEqual(['general {"port":12000}']);
  expect(document.querySelector('#setting-port-help')?.textContent).toContain(
    'Applies when Headroom restarts.',
  );
});

test('a switch opens Ollama’s port', async () => {
  await open();
  const button = document.querySelector<HTMLElement>(
    '[role="switch"][aria-label="Also listen on Ollama’s port"]',
  )!;
  expect(button.getAttribute('aria-checked')).toBe('false');
  button.click();
  await vi.waitFor(() => expect(calls()).toEqual(['general {"ollamaPort":true}']));
});

test('a switch lets apps delete models', async () => {
  await open();
  const button = document.querySelector<HTMLElement>(
    '[role="switch"][aria-label="Let apps delete models"]',
  )!;
  expect(button.getAttribute('aria-checked')).toBe('false');
  button.click();
  await vi.waitFor(() => expect(calls()).toEqual(['general {"ollamaDelete":true}']));
});

test('host names are entered as a list with commas', async () => {
  await open();
  await set('allowHosts', ' mac.local,, other ');
  expect(calls()).toEqual(['general {"allowHosts":["mac.local","other"]}']);
});

test('settings set by a command-line flag cannot be changed', async () => {
  await open((backend) => (backend.general = { ...backend.general, readOnly: ['port'] }));
  expect(field('port').disabled).toBe(true);
  expect(field('allowHosts').disabled).toBe(false);
});

test('a value that the server refuses shows why and changes nothing', async () => {
  await open((backend) => (backend.general = { ...backend.general, apiKey: 'k' }));
  backend.nextError = new HeadroomError({
    code: 'bad_request',
    message: 'The API key is not valid',
    why: 'it contains a space or a character outside ASCII',
    fix: 'Use ASCII letters, digits and punctuation.',
  });
  await set('apiKey', 'a b');
  expect(document.body.textContent).toContain('The API key is not valid');
  expect(backend.general.apiKey).toBe('k');
});

const keyRows = () =>
  [...document.querySelectorAll('[data-testid="key"]')].map((row) =>
    [...row.querySelectorAll('p')].map((part) => part.textContent?.trim()),
  );

const keyCalls = () => backend.calls.filter((call) => call.includes(' key '));

/** Fills a field of the sheet. */
function fill(label: string, value: string) {
  const found = [...document.querySelectorAll('dialog label')].find((element) =>
    element.textContent?.trim().startsWith(label),
  );
  const input = found!.querySelector<HTMLInputElement | HTMLSelectElement>('input, select')!;
  input.value = value;
  for (const event of ['input', 'change']) input.dispatchEvent(new Event(event, { bubbles: true }));
  flushSync();
}

test('the keys are listed with their limits and their use', async () => {
  await open();
  expect(keyRows()).toEqual([
    [
      'Laptop',
      'headroom-demo, 60 requests per minute, 2 at once, after other requests',
      expect.stringMatching(
        /^1,204 requests, 3,400,000 prompt tokens, 91,000 generated tokens; last used /,
      ),
    ],
    ['Phone', 'All models', 'Never used'],
  ]);
});

test('the key without a name is shown only if there is one', async () => {
  await open();
  expect(field('apiKey')).toBeNull();
  await open((backend) => (backend.general = { ...backend.general, apiKey: 'k' }));
  expect(field('apiKey').value).toBe('k');
  await set('apiKey', '');
  expect(calls()).toEqual(['general {"apiKey":""}']);
  await open((backend) => (backend.general = { ...backend.general, readOnly: ['apiKey'] }));
  expect(field('apiKey').disabled).toBe(true);
});

test('a new key is shown once', async () => {
  await open((backend) => (backend.named = []));
  expect(document.body.textContent).toContain('No keys.');
  button('New key…').click();
  flushSync();
  expect(button('Make key').disabled).toBe(true);
  fill('Name', ' Tablet ');
  fill('Requests per minute', 'many');
  expect(button('Make key').disabled).toBe(true);
  fill('Requests per minute', '30');
  fill('Models', 'some');
  expect(button('Make key').disabled).toBe(true);
  document.querySelector<HTMLInputElement>('dialog li input')!.click();
  flushSync();
  button('Make key').click();
  await pass(10);
  expect(keyCalls()).toEqual([
    `add key ${JSON.stringify({
      name: 'Tablet',
      models: [engine.models.all.filter(({ error }) => error === '')[0]!.id],
      requestsPerMinute: 30,
      concurrentRequests: 0,
      priority: '',
    })}`,
  ]);
  expect(document.querySelector('[data-testid="key-text"]')?.textContent).toBe('hr-text-of-Tablet');
  button('Done').click();
  await pass(10);
  expect(document.body.textContent).not.toContain('hr-text-of-Tablet');
  expect(keyRows().map(([name]) => name)).toEqual(['Tablet']);
  button('New key…').click();
  flushSync();
  expect(document.body.textContent).not.toContain('hr-text-of-Tablet');
  fill('Name', 'Tablet');
  button('Make key').click();
  await pass(10);
  expect(document.querySelector('dialog')?.textContent).toContain(
    'There is an API key "Tablet" already',
  );
});

test('the limits of a key are changed', async () => {
  await open();
  button('Edit Laptop').click();
  flushSync();
  fill('Requests per minute', '');
  fill('Requests at once', '5');
  fill('Models', 'all');
  button('Save').click();
  await pass(10);
  expect(keyCalls()).toEqual([
    'change key 5a1f03c29e7b8d46 {"name":"Laptop","models":[],"requestsPerMinute":0,' +
      '"concurrentRequests":5,"priority":"batch"}',
  ]);
  expect(document.querySelector('dialog')).toBeNull();
  expect(keyRows()[0]?.[1]).toBe('All models, 5 at once, after other requests');
});

test('a key is removed after a question, which says if it is the last one', async () => {
  await open();
  button('Remove Laptop').click();
  flushSync();
  expect(document.querySelector('dialog')?.textContent).not.toContain('It is the last key.');
  button('Cancel').click();
  await pass(10);
  expect(keyCalls()).toEqual([]);
  for (const name of ['Laptop', 'Phone']) {
    button(`Remove ${name}`).click();
    flushSync();
    const last = document.querySelector('dialog')!.textContent!.includes('It is the last key.');
    expect(last).toBe(name === 'Phone');
    button('Remove').click();
    await pass(10);
  }
  expect(keyCalls()).toEqual(['remove key 5a1f03c29e7b8d46', 'remove key c0ffee5a1f03c29e']);
  expect(keyRows()).toEqual([]);
});

test('a missing default model stays selected', async () => {
  await open((backend) => (backend.general = { ...backend.general, defaultModel: 'gone/model' }));
  expect(field('defaultModel').value).toBe('gone/model');
  expect(document.querySelector('#setting-defaultModel')?.textContent).toContain(
    'gone/model, not found',
  );
});

test('new log lines appear, and the log starts over with a new process', async () => {
  await open();
  const lines = () =>
    [...document.querySelectorAll('[data-testid="log"] p')].map((line) =>
      line.textContent?.replace(/\s+/g, ' ').trim(),
    );
  expect(lines()).toHaveLength(2);
  backend.log = [
    ...backend.log,
    { number: 3, at: 0, level: 'ERROR', message: 'gone wrong', fields: '' },
  ];
  await pass(2500);
  expect(lines().at(-1)).toContain('ERROR gone wrong');
  backend.log = [{ number: 1, at: 0, level: 'INFO', message: 'a new process', fields: '' }];
  await pass(5000);
  expect(lines()).toHaveLength(1);
  expect(lines()[0]).toContain('a new process');
});

test('log lines are filtered by level and text, and saved as text', () => {
  const lines = [
    { number: 1, at: 0, level: 'INFO' as const, message: 'loading', fields: 'model=o/M' },
    { number: 2, at: 1000, level: 'WARN' as const, message: 'slow', fields: '' },
  ];
  expect(matching(lines, 'warn', '').map(({ number }) => number)).toEqual([2]);
  expect(matching(lines, 'debug', ' O/m ').map(({ number }) => number)).toEqual([1]);
  expect(logText(lines)).toBe(
    '1970-01-01T00:00:00.000Z INFO  loading model=o/M\n1970-01-01T00:00:01.000Z WARN  slow\n',
  );
});

test('the appearance is saved and applied', async () => {
  await open();
  await set('appearance', 'dark');
  expect(document.documentElement.style.colorScheme).toBe('dark');
  expect(new SettingsStore(backend, localStorage).appearance).toBe('dark');
});

test('the card of what is stored lists kinds, places and sizes', async () => {
  await open();
  const rows = [...document.querySelectorAll('[data-testid="stored"]')].map((row) =>
    row.textContent?.replace(/\s+/g, ' ').trim(),
  );
  expect(rows).toHaveLength(8);
  expect(rows[0]).toBe('Chats /home/you/.local/share/headroom/chats None');
  expect(rows[1]).toMatch(/^Cache on SSD \/.* 1\.2 GB$/);
  expect(rows[3]).toMatch(/^Log in memory /);
  expect(rows[5]).toMatch(/^API keys and token, which stay .*keys\.json /);
});

test('models in the own folders are offered for deletion only if there are any', async () => {
  await open((b) => (b.storedModels = [0, 0]));
  button('Delete everything…').click();
  flushSync();
  expect(document.querySelectorAll('dialog input')).toHaveLength(1);
  expect(document.querySelector('dialog')?.textContent).not.toContain('to the Trash');
});

test('everything is deleted after a question, and the page forgets what it stored', async () => {
  await open((b) => (b.leaves = ['Another program has the cache open.']));
  localStorage.setItem('headroom.tools', '[{"type":"SECRET"}]');
  localStorage.setItem('other', 'kept');
  const deletions = () => backend.calls.filter((call) => call.startsWith('delete everything'));
  button('Delete everything…').click();
  flushSync();
  button('Cancel').click();
  await pass(10);
  expect(deletions()).toEqual([]);
  button('Delete everything…').click();
  flushSync();
  document.querySelectorAll<HTMLInputElement>('dialog input')[1]!.click();
  flushSync();
  button('Delete everything').click();
  await pass(50);
  expect(deletions()).toEqual(['delete everything {"settings":false,"models":true}']);
  expect([localStorage.getItem('headroom.tools'), localStorage.getItem('other')]).toEqual([
    null,
    'kept',
  ]);
  const said = document.querySelector(
    '[aria-labelledby="settings-stored"] [role="status"]',
  )?.textContent;
  expect(said).toContain('Deleted ');
  expect(said).toContain('Another program has the cache open.');
});
