import { expect, test } from 'vitest';
import { fakeState } from './backend/fake';
import { slowReasons } from './help';

test('a state without trouble has no reasons', () => {
  const state = { ...fakeState(0), requests: [] };
  state.engine.device = 'Apple M3';
  expect(slowReasons(state)).toEqual([]);
});

test('each thing that slows answers down is named', () => {
  const state = fakeState(0);
  state.engine = { ...state.engine, device: 'CPU, AVX2, 2 threads' };
  state.pressure = { ...state.pressure, level: 'critical', swapUsedBytes: 3 * 2 ** 30 };
  state.power.measures = [{ kind: 'throttle', title: 'Hot', text: 'The computer is hot.' }];
  expect(slowReasons(state)).toEqual([
    'Memory is short: 3.0 GB are in swap. Unload a model on Memory.',
    'The computer is hot.',
    '2 requests share the engine.',
    'A prompt of 8,192 tokens is being read.',
    'The model runs on the processor, not on a GPU.',
  ]);
  state.pressure.swapUsedBytes = 0;
  state.engine.status = 'unloaded';
  expect(slowReasons(state).slice(0, 2)).toEqual([
    'Memory is short. Unload a model on Memory, or close other apps.',
    'The model was unloaded because it was idle. The next request loads it again.',
  ]);
});
