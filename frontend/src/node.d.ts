// The parts of Node that tests use (lib/tools.test.ts, settingskeys.test.ts). Node's full types
// would change the types of the browser's timers.
declare module 'node:child_process' {
  export function execFileSync(
    file: string,
    args: string[],
    options: { encoding: 'utf8'; env: Record<string, string> },
  ): string;
}

declare module 'node:fs' {
  export function readFileSync(path: string, encoding: 'utf8'): string;
}

declare const process: { env: Record<string, string | undefined> };
