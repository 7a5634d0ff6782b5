import { expect, test } from 'vitest';
import { fakeState } from './backend/fake';
import { roomText } from './room';

test('says what has to be unloaded for the memory that is said to be available', () => {
  const state = fakeState();
  const [engine] = state.engines;
  expect(roomText(state)).toMatch(/^15\.5 GB available after unloading headroom-demo$/);
  state.engines = [engine!, { ...engine!, model: 'o/b' }];
  expect(roomText(state)).toBe('15.5 GB available after unloading 2 models');
  state.engines = [
    { ...engine!, pinned: true },
    { ...engine!, model: 'o/b' },
  ];
  expect(roomText(state)).toBe('15.5 GB available after unloading b');
  state.engines = [{ ...engine!, status: 'loading' }];
  expect(roomText(state)).toBe('15.5 GB available');
});
