/*
 * A libcupti without a card, for tests of the profiler's own logic: three passes, one range a kernel that the fake driver launched while
 * it counted, and values that say which metric and which range they are of. FAKE_CUPTI chooses what goes wrong.
 */
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_profiler_host.h>
#include <cupti_result.h>
#include <cupti_target.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PASSES 3
static int open_objects, passes_done, launched_before, ranges;
static size_t wanted;

int fake_cupti_open(void);
int fake_cupti_open(void) { return open_objects; }

static bool plays(const char *what) { const char *now = getenv("FAKE_CUPTI"); return now && strcmp(now, what) == 0; }

static int launched(void)
{
    int (*f)(void);
    void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_launched");
    if (!symbol)
        abort();
    memcpy(&f, &symbol, sizeof f);
    return f();
}

CUptiResult cuptiGetResultString(CUptiResult r, const char **text)
{
    *text = r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : r == CUPTI_ERROR_NOT_SUPPORTED ? "CUPTI_ERROR_NOT_SUPPORTED" : NULL;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params *p) { (void)p; open_objects++; return plays("no_profiler") ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS; }
CUptiResult cuptiProfilerDeInitialize(CUpti_Profiler_DeInitialize_Params *p) { (void)p; open_objects--; return CUPTI_SUCCESS; }
CUptiResult cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params *p)
{
    if (plays("privileges"))
        return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    if (p->pCounterAvailabilityImage)
        memset(p->pCounterAvailabilityImage, 7, p->counterAvailabilityImageSize);
    p->counterAvailabilityImageSize = plays("huge_image") ? (size_t)1 << 40 : 100;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *p) { p->pChipName = "GX100"; return CUPTI_SUCCESS; }
CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params *p)
{
    if (strcmp(p->pChipName, "GX100") || !p->pCounterAvailabilityImage || p->pCounterAvailabilityImage[99] != 7)
        return CUPTI_ERROR_INVALID_PARAMETER;
    p->pHostObject = (void *)1;
    open_objects++;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params *p) { (void)p; open_objects--; return CUPTI_SUCCESS; }
CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *p)
{
    if (plays("no_metrics") || strncmp(*p->ppMetricNames, "l1tex__throughput", 17) == 0)     /* a chip lacks some */
        return CUPTI_ERROR_INVALID_METRIC_NAME;
    wanted += p->numMetrics;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params *p) { p->configImageSize = 64; return CUPTI_SUCCESS; }
CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *p) { memset(p->pConfigImage, 5, p->configImageSize); return CUPTI_SUCCESS; }
CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *p) { p->numOfPasses = plays("many_passes") ? 5000 : PASSES; return CUPTI_SUCCESS; }
CUptiResult cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params *p)
{
    if (p->numMetrics != wanted || p->pCounterDataImage[0] != 9)
        return CUPTI_ERROR_INVALID_PARAMETER;
    for (size_t i = 0; i < p->numMetrics; i++)
        p->pMetricValues[i] = 1000.0 * (double)p->rangeIndex + (double)strlen(p->ppMetricNames[i]);
    return CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params *p) { p->pRangeProfilerObject = (void *)2; open_objects++; return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params *p) { (void)p; open_objects--; return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params *p) { p->counterDataSize = p->numMetrics == wanted ? 32 : 0; return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerCounterDataImageInitialize(CUpti_RangeProfiler_CounterDataImage_Initialize_Params *p) { p->pCounterData[0] = 9; return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params *p)
{
    return p->pConfig[0] == 5 && p->range == CUPTI_AutoRange && p->replayMode == CUPTI_UserReplay ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *p)
{
    (void)p;
    launched_before = launched();
    return plays("busy") ? CUPTI_ERROR_HARDWARE_BUSY : plays("privileges_late") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params *p)
{
    ranges = launched() - launched_before;
    p->isAllPassSubmitted = ++passes_done >= PASSES && !plays("endless");
    return CUPTI_SUCCESS;
}
CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params *p) { p->numOfRangeDropped = plays("drops"); return CUPTI_SUCCESS; }
CUptiResult cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params *p) { p->numTotalRanges = (size_t)ranges; return CUPTI_SUCCESS; }
