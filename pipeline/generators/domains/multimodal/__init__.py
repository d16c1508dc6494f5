from pipeline.generators.drafts import Pack
PACK = Pack(domain="multimodal", families={})
