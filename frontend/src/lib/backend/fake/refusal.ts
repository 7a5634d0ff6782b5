import { HeadroomError } from '../backend';

/** An error of the fake server; most have neither a reason nor advice. */
export function refusal(code: string, message: string, why = '', fix = ''): HeadroomError {
  return new HeadroomError({ code, message, why, fix });
}
