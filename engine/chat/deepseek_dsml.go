package chat

import "regexp"

// deepseekV32 is the format of DeepSeek V3.2, and deepseekV4 that of DeepSeek V4, whose block is
// called tool_calls:
//
//	<｜DSML｜function_calls>
//	<｜DSML｜invoke name="NAME">
//	<｜DSML｜parameter name="KEY" string="true">TEXT</｜DSML｜parameter>
//	<｜DSML｜parameter name="KEY" string="false">JSON</｜DSML｜parameter>
//	</｜DSML｜invoke>
//	</｜DSML｜function_calls>
var (
	deepseekV32 = dsml("deepseek_v32", "function_calls", `｜DSML｜.*function_calls>`)
	deepseekV4  = dsml("deepseek_v4", "tool_calls", `｜DSML｜`)
)

func dsml(name, block, mark string) toolFormat {
	tags := invokeTags{
		invoke: "<｜DSML｜invoke", invokeEnd: "</｜DSML｜invoke>",
		parameter: "<｜DSML｜parameter", parameterEnd: "</｜DSML｜parameter>",
		blockOpen: "<｜DSML｜" + block + ">", blockEnd: "</｜DSML｜" + block + ">",
	}
	return toolFormat{
		name:    name,
		mark:    regexp.MustCompile(`(?s)` + mark),
		open:    []string{tags.blockOpen},
		close:   tags.blockEnd,
		in:      []string{"｜DSML｜"},
		control: true,
		begin: func(schemas map[string]schema) callReader {
			return newInvokeReader(tags, schemas)
		},
	}
}
