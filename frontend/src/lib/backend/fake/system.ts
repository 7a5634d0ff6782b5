// The fake updates and bug report.
import type { SystemBackend, UpdateAction } from '../system';
import type { ReportPart, UpdateStatus } from '../types';

export class FakeSystem implements SystemBackend {
  /** Appended to on each action. */
  readonly #calls: string[];
  status: UpdateStatus = {
    phase: 'off',
    current: '0.1.0',
    version: '',
    notes: '',
    bytes: 0,
    doneBytes: 0,
    checkedAt: 0,
    previous: '',
    goesBack: false,
    installed: true,
    error: null,
  };

  constructor(calls: string[]) {
    this.#calls = calls;
  }

  async update(): Promise<UpdateStatus> {
    return this.status;
  }

  async changeUpdate(action: UpdateAction): Promise<UpdateStatus> {
    this.#calls.push(`update ${action}`);
    const next: Record<UpdateAction, Partial<UpdateStatus>> = {
      check: {
        phase: 'available',
        version: '0.2.0',
        notes: 'Faster prefill.',
        bytes: 21_000_000,
        checkedAt: Date.now(),
      },
      download: { phase: 'ready' },
      cancel: { phase: 'idle', goesBack: false, version: '' },
      back: { goesBack: true },
    };
    this.status = { ...this.status, ...next[action] };
    return this.status;
  }

  async report(): Promise<ReportPart[]> {
    return [
      { name: 'machine', text: 'Headroom 0.1.0\nSystem: darwin/arm64\n' },
      { name: 'settings', text: '{\n  "apiKey": "(hidden)"\n}\n' },
      { name: 'state', text: '{}\n' },
      { name: 'selftest', text: 'The GPU was not tested on this computer.\n' },
      { name: 'log', text: '2026-11-22T12:00:00.000Z INFO  model loaded\n' },
    ];
  }
}
