"""Start-up logs in the engines' formats, written for these tests: two that became ready and one that failed."""

from __future__ import annotations

LLAMACPP = """\
0.00.001.096 I srv  llama_server: initializing ...
0.00.002.283 I cmn  common_param: common_params_print_info: build 11434 (unknown) with GNU 12.2.0 for Linux x86_64
0.00.004.300 I srv    load_model: loading model 'smol.gguf'
0.00.100.000 I load_tensors: offloaded 31/31 layers to GPU
0.00.223.903 I load_tensors:   CPU_Mapped model buffer size =    28.69 MiB
0.00.223.904 I load_tensors:        CUDA0 model buffer size =    92.00 MiB
0.00.230.000 I llama_context: constructing llama_context
0.00.230.001 I llama_context:  CUDA_Host  output buffer size =     0.75 MiB
0.00.240.000 I llama_kv_cache:      CUDA0 KV buffer size =   180.00 MiB
0.00.240.001 I llama_kv_cache: size =  180.00 MiB (  8192 cells,  30 layers,  4/1 seqs)
0.00.250.000 I sched_reserve:      CUDA0 compute buffer size =    14.00 MiB
0.01.308.057 I srv  llama_server: model loaded
"""
VLLM = """\
(APIServer pid=1) INFO 11-29 10:00:00 [api_server.py:1] vLLM API server version 0.32.0
(EngineCore pid=2) INFO 11-29 10:00:01 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='m', \
enforce_eager=False, speculative_config=SpeculativeConfig(method='mtp', model='m', num_spec_tokens=3)
(Worker_TP0 pid=3) INFO 11-29 10:00:09 [runner.py:1] Model loading took 9.5 GiB memory and 7.1 seconds
(Worker_TP1 pid=4) INFO 11-29 10:00:09 [runner.py:1] Model loading took 9.5 GiB memory and 7.2 seconds
(Worker_TP0 pid=3) INFO 11-29 10:00:20 [gpu_worker.py:1] Available KV cache memory: 5.41 GiB
(Worker_TP1 pid=4) INFO 11-29 10:00:20 [gpu_worker.py:1] Available KV cache memory: 5.33 GiB
(EngineCore pid=2) INFO 11-29 10:00:21 [kv_cache_utils.py:1] GPU KV cache size: 300,220 tokens, \
Maximum concurrency for 262,144 tokens per request: 1.15x
(EngineCore pid=2) INFO 11-29 10:00:30 [core.py:1] init engine (profile, create kv cache, warmup model) took 21.5 s
(APIServer pid=1) INFO:     Application startup complete.
"""
FAILED = """\
(EngineCore pid=2) INFO 11-29 10:00:01 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='m'
(EngineCore pid=2) ERROR 11-29 10:00:09 [core.py:1] torch.OutOfMemoryError: CUDA out of memory.
"""
