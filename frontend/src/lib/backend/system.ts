// Updates of Headroom and bug reports, and the requests for them.
import { filled } from './fill';
import type { Send } from './transfers';
import type { ReportPart, UpdateStatus } from './types';

/** What can be asked for about updates. */
export type UpdateAction = 'check' | 'download' | 'cancel' | 'back';

export interface SystemBackend {
  update(): Promise<UpdateStatus>;
  /** A download goes on in the background. What is ready is applied when Headroom quits. */
  changeUpdate(action: UpdateAction): Promise<UpdateStatus>;
  /** The parts of a bug report, without secrets. Nothing is sent. */
  report(): Promise<ReportPart[]>;
}

export class HttpSystem implements SystemBackend {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  async update(): Promise<UpdateStatus> {
    return filled('UpdateStatus', await (await this.#send('GET', 'control/update')).json());
  }

  async changeUpdate(action: UpdateAction): Promise<UpdateStatus> {
    const response = await this.#send('POST', `control/update/${action}`, {});
    return filled('UpdateStatus', await response.json());
  }

  async report(): Promise<ReportPart[]> {
    const report = await (await this.#send('GET', 'control/report')).json();
    return filled('BugReport', report).parts ?? [];
  }
}
