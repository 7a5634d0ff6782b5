import { afterEach, expect, test, vi } from 'vitest';
import { levels, nextZoom, setZoom, storedZoom } from './zoom';

afterEach(() => {
  localStorage.clear();
  vi.unstubAllGlobals();
  document.documentElement.removeAttribute('style');
});

test('the levels go up and down and end', () => {
  expect(nextZoom(1, 1)).toBe(1.1);
  expect(nextZoom(1, -1)).toBe(0.9);
  expect(nextZoom(levels[0], -1)).toBe(levels[0]);
  expect(nextZoom(2, 1)).toBe(2);
});

test('the level is kept, and a value that is none is 100 %', async () => {
  expect(storedZoom(localStorage)).toBe(1);
  await setZoom(localStorage, 1.25);
  expect(storedZoom(localStorage)).toBe(1.25);
  localStorage.setItem('headroom.zoom', '77');
  expect(storedZoom(localStorage)).toBe(1);
});

test('the window zooms if it can, else the style sheet', async () => {
  await setZoom(localStorage, 1.5);
  expect(document.documentElement.style.getPropertyValue('--zoom')).toBe('1.5');
  const SetZoom = vi.fn(async () => true);
  vi.stubGlobal('go', { main: { Frame: { SetZoom } } });
  await setZoom(localStorage, 2);
  expect(SetZoom).toHaveBeenCalledWith(2);
  expect(document.documentElement.style.getPropertyValue('--zoom')).toBe('');
});
