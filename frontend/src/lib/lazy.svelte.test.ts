import { flushSync } from 'svelte';
import { expect, test } from 'vitest';
import { Lazy } from './lazy';

test('what was shown without a module is shown again when it has come', async () => {
  let finish: (value: string) => void = () => {};
  let loads = 0;
  const events: string[] = [];
  const lazy = new Lazy(
    () => new Promise<string>((resolve) => ((finish = resolve), loads++)),
    () => events.push('loaded'),
  );
  const stop = $effect.root(() => {
    const text = $derived(`with ${lazy.get()}`);
    $effect(() => void events.push(text));
    $effect(() => void lazy.get());
  });
  flushSync();
  finish('colours');
  await lazy.ready();
  flushSync();
  expect(events).toEqual(['with null', 'loaded', 'with colours']);
  expect(loads).toBe(1);
  stop();
});

test('a module that did not load is asked for again by the next one who needs it', async () => {
  let loads = 0;
  const lazy = new Lazy(() => (loads++ === 0 ? Promise.reject(new Error()) : Promise.resolve('x')));
  expect(lazy.get()).toBeNull();
  await Promise.resolve();
  await Promise.resolve();
  await Promise.resolve();
  expect(lazy.get()).toBeNull();
  expect(await lazy.ready()).toBe('x');
  expect(lazy.get()).toBe('x');
});
