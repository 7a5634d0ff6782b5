// What slows answers down right now, by the state.
import type { State } from './backend/types';
import { count, memoryBytes, tokens } from './format';
import { helpSheet } from '../strings/help';

const t = helpSheet.reasons;

/** The reasons, what a person can change first. Measures of the engine describe themselves. */
export function slowReasons({ engine, pressure, power, requests }: State): string[] {
  const short = pressure.level === 'warning' || pressure.level === 'critical';
  const reading = requests.find(({ phase }) => phase === 'prefill');
  return [
    short
      ? pressure.swapUsedBytes > 0
        ? t.swap(memoryBytes(pressure.swapUsedBytes))
        : t.pressure
      : '',
    engine.status === 'loading' ? t.loading : '',
    engine.status === 'unloaded' ? t.unloaded : '',
    ...(power.measures ?? []).map(({ text }) => text),
    requests.length > 1 ? t.busy(count(requests.length)) : '',
    reading ? t.prefill(tokens(reading.promptTokens)) : '',
    engine.device.startsWith('CPU') ? t.processor : '',
  ].filter(Boolean);
}
