// Tests the card of machines with the fake backend, as a user sees and operates it.
import { expect, test } from 'vitest';
import { FakeBackend } from './lib/backend/fake';
import { SettingsStore } from './lib/stores/settings.svelte';
import MachinesCard from './components/settings/MachinesCard.svelte';
import { pass, testPage } from './testpage';

const openPage = testPage(MachinesCard, (_, backend) => ({
  store: new SettingsStore(backend, localStorage),
}));
let backend: FakeBackend;

async function open(change?: (backend: FakeBackend) => void) {
  ({ backend } = await openPage(change));
}

const text = () => document.body.textContent.replace(/\s+/g, ' ');

function button(name: string): HTMLButtonElement {
  const found = [...document.querySelectorAll('button')].filter(
    (element) => (element.getAttribute('aria-label') ?? element.textContent.trim()) === name,
  );
  if (found.length !== 1) throw new Error(`${found.length} buttons ${name}`);
  return found[0]!;
}

async function click(name: string) {
  button(name).click();
  await pass(10);
}

async function type(label: string, value: string) {
  const input = [...document.querySelectorAll('label')]
    .find((element) => element.textContent.trim() === label)
    ?.querySelector('input');
  if (!input) throw new Error(`no field ${label}`);
  input.value = value;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  await pass(10);
}

test('sharing is off, and switched on it shows a code that counts down', async () => {
  await open();
  expect(button('Share this computer').getAttribute('aria-checked')).toBe('false');
  expect(() => button('Show a code')).toThrow();
  await click('Share this computer');
  expect(backend.calls.at(-1)).toBe('sharing true false');
  expect(text()).toContain('at port 11812');
  await click('Show a code');
  expect(text()).toContain('0815 4711');
  expect(text()).toContain('type 192.168.1.7 and this code');
  expect(text()).toContain('Other addresses of this computer: 10.0.0.7');
  expect(text()).toContain('It expires in 2 min.');
  await pass(61_000);
  expect(text()).toMatch(/It expires in 5\d s\./);
  backend.pairing.state = {
    ...backend.pairing.state,
    code: { ...backend.pairing.state.code, tries: 1 },
  };
  await pass(1100);
  expect(text()).toContain('One try is left');
  await pass(60_000);
  expect(text()).toContain('The code has expired');
  expect(text()).not.toContain('0815 4711');
  button('Show another code');
});

test('a machine that typed the code is listed, and can be removed', async () => {
  await open();
  await click('Share this computer');
  await click('Show a code');
  backend.pairing.end('paired');
  await pass(1100);
  expect(text()).toContain('studio was paired.');
  expect(text()).toContain('Not used yet · Certificate ab12 cd34 ef56 7890');
  await click('Remove… studio');
  expect(document.querySelector('dialog')?.textContent).toContain('Remove studio?');
});

test('a machine is found, paired with its code, and removed', async () => {
  await open();
  expect(() => button('Choose studio')).toThrow();
  await click('Find machines on this network');
  await click('Choose studio');
  expect(button('Pair').disabled).toBe(true);
  await type('Code', '1111 1111');
  await click('Pair');
  expect(text()).toContain('The code is wrong');
  await type('Code', '1234 5678');
  await click('Pair');
  expect(backend.calls.at(-1)).toBe('join 192.168.1.5:11812 1234 5678 false');
  expect(text()).toContain('studio can be used from this computer.');
  await click('Remove… studio');
  await click('Remove');
  expect(backend.calls.at(-1)).toMatch(/^remove m\d+$/);
  expect(text()).toContain('No other machine can be used from this one yet.');
});

test('what the command line sets cannot be switched, and a fault is a sentence', async () => {
  await open((backend) => {
    backend.pairing.state = {
      ...backend.pairing.state,
      on: true,
      readOnly: ['on', 'find'],
      problem: {
        code: 'port_taken',
        message: 'Port 11812 is taken',
        why: 'another program listens there',
        fix: 'Choose another port.',
        detail: '',
      },
    };
  });
  expect(button('Share this computer').disabled).toBe(true);
  expect(button('Find machines on this network').disabled).toBe(true);
  expect(text()).toContain('Port 11812 is taken');
});
